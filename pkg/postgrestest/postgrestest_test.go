package postgrestest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func TestDSN_EachCallIsAnEmptyDatabaseOfItsOwn(t *testing.T) {
	ctx := context.Background()
	first, second := connect(t, postgrestest.DSN(t)), connect(t, postgrestest.DSN(t))
	if _, err := first.Exec(ctx, "CREATE TABLE here (id int)"); err != nil {
		t.Fatal(err)
	}
	var tables int
	err := second.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE tablename = 'here'").Scan(&tables)
	if err != nil || tables != 0 {
		t.Fatalf("the second database has %d tables of the first, error %v", tables, err)
	}
}

func TestClone_HasWhatTheOriginalHas(t *testing.T) {
	ctx := context.Background()
	dsn := postgrestest.DSN(t)
	original, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := original.Exec(ctx, "CREATE TABLE here (id int); INSERT INTO here VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	if err := original.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var id int
	copied := connect(t, postgrestest.Clone(t, dsn))
	if err := copied.QueryRow(ctx, "SELECT id FROM here").Scan(&id); err != nil || id != 7 {
		t.Fatalf("the copy has %d, error %v", id, err)
	}
}

func TestDSN_DatabaseIsGoneWithItsTest(t *testing.T) {
	ctx := context.Background()
	var dsn string
	t.Run("owner", func(t *testing.T) {
		dsn = postgrestest.DSN(t)
		left, err := pgx.Connect(ctx, dsn) // left open: the drop must not wait for it
		if err != nil {
			t.Fatal(err)
		}
		_ = left
	})
	if dsn == "" {
		t.Skip("no server")
	}
	if conn, err := pgx.Connect(ctx, dsn); err == nil {
		_ = conn.Close(ctx)
		t.Fatal("the database is still there")
	}
}

func TestOwn_StallsGoesOnAndIsRestarted(t *testing.T) {
	cluster := postgrestest.Own(t)
	dsn := cluster.DSN()
	conn := connect(t, dsn)
	ctx := context.Background()
	if _, err := conn.Exec(ctx, "CREATE TABLE here (id int); INSERT INTO here VALUES (7)"); err != nil {
		t.Fatal(err)
	}

	cluster.Stall()
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "INSERT INTO here VALUES (8)")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a stalled server answers: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	cluster.Resume()
	if err := <-answered; err != nil {
		t.Fatalf("a server that goes on: %v", err)
	}

	if n := cluster.CutOff(dsn); n != 1 {
		t.Errorf("%d sessions were cut off", n)
	}
	if err := conn.Ping(ctx); err == nil {
		t.Error("a session that was cut off goes on")
	}

	cluster.Restart()
	var rows int
	if err := connect(t, dsn).QueryRow(ctx, "SELECT count(*) FROM here").Scan(&rows); err != nil || rows != 2 {
		t.Errorf("after the restart there are %d rows, error %v", rows, err)
	}
}
