package gormstore

import (
	"database/sql"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// What a DSN says of the sessions' language is overruled, however it is written.
func TestSessions_SpeakOurWay(t *testing.T) {
	config, err := pgx.ParseConfig(postgrestest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"datestyle": "German", "DATESTYLE": "SQL, MDY", "Client_Encoding": "LATIN1",
		"options": "-c DateStyle=German -c client_encoding=UHC",
	})
	connector, err := postgresDialect(config).connector()
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	defer func() { _ = pool.Close() }()
	for setting, want := range map[string]string{"DateStyle": "ISO, YMD", "client_encoding": "UTF8"} {
		var got string
		if err := pool.QueryRowContext(t.Context(), "SHOW "+setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, error %v, want %q", setting, got, err, want)
		}
	}
}
