package gormstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

func TestLeash_CutsAStatementWhoseContextEnds(t *testing.T) {
	s := openInternal(t, postgrestest.DSN(t))
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.single(ctx, func(db *gorm.DB) error {
			if db.Statement.Context.Done() != nil {
				t.Error("the statement's own context can end, which costs two goroutines")
			}
			close(begun)
			return db.Exec("SELECT pg_sleep(60)").Error
		})
	}()
	<-begun
	cancel()
	var commit *commitError
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || !errors.As(err, &commit) {
			t.Errorf("error %v, want the context's, after which it may have happened", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it sleeps on")
	}
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	if stats := pool.Stats(); stats.OpenConnections != stats.Idle || stats.InUse != 0 {
		t.Errorf("the pool has %+v", stats)
	}
	if err := s.single(t.Context(), func(db *gorm.DB) error { return db.Exec("SELECT 1").Error }); err != nil {
		t.Errorf("the next statement: %v", err)
	}
}

func TestLeash_ConnectionOfAStatementThatCameFirstIsGoodStill(t *testing.T) {
	s := openInternal(t, postgrestest.DSN(t))
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	backend := func(ctx context.Context, after func()) (pid int) {
		err := s.single(ctx, func(db *gorm.DB) error {
			err := db.Raw("SELECT pg_backend_pid()").Scan(&pid).Error
			after()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := backend(ctx, cancel)
	if again := backend(t.Context(), func() {}); again != first {
		t.Errorf("session %d after %d", again, first)
	}
}
