package gormstore

// InUse is how many connections are with someone now.
func InUse(s *Store) int {
	pool, err := s.db.DB()
	if err != nil {
		return -1
	}
	return pool.Stats().InUse
}
