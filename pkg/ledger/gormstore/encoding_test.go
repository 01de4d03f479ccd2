package gormstore_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// A database of a bank may have another encoding set for whoever connects.
func TestEncoding_OfSessionsIsOurs(t *testing.T) {
	for _, encoding := range []string{"UHC", "EUC_KR", "LATIN1"} {
		t.Run(encoding, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			setForSessions(t, dsn, "client_encoding", "'"+encoding+"'")
			s := openBook(t, dsn)
			in := intent(1)
			if _, err := s.CreateIntent(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			const message = "정상처리되었습니다"
			_, err := s.Transition(t.Context(), ledger.Change{
				ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered, By: payer,
				Answer: ledger.Answer{Code: "0000", Message: message},
			})
			if err != nil {
				t.Fatal(err)
			}
			if row, err := openBook(t, dsn).Get(t.Context(), in.ID); err != nil || row.Answer.Message != message {
				t.Errorf("message %q, error %v", row.Answer.Message, err)
			}
		})
	}
}

func TestEncoding_OfADatabaseThatCannotHoldEveryTextIsRefused(t *testing.T) {
	dsn := postgrestest.DSN(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/") + "_euckr"
	admin := raw(t, dsn)
	mustExec(t, admin, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'EUC_KR' LOCALE 'C'")
	defer mustExec(t, admin, "DROP DATABASE "+name+" WITH (FORCE)")
	u.Path = "/" + name
	err = refuseToOpen(t, options(u.String()))
	if !strings.Contains(err.Error(), `its encoding is "EUC_KR", and must be UTF8`) {
		t.Error(err)
	}
}
