package rpcserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gwanmun/gwanmun/pkg/rpcserver"
)

// issued is a self-signed certificate in files.
type issued struct {
	cert, key string
	pair      tls.Certificate
	pool      *x509.CertPool
}

func issue(t *testing.T, dir, name string) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	i := issued{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key"), pool: x509.NewCertPool()}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if err := errors.Join(os.WriteFile(i.cert, certPEM, 0o600), os.WriteFile(i.key, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	i.pool.AppendCertsFromPEM(certPEM)
	if i.pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return i
}

// secured serves over TLS on a real port, and returns what asks for its health
// as the caller whose TLS this is.
func secured(t *testing.T, flags rpcserver.Flags) (ask func(*tls.Config) error) {
	t.Helper()
	o := options()
	flags.GRPCAddr, flags.AdminAddr = o.Flags.GRPCAddr, o.Flags.AdminAddr
	o.Flags = flags
	s, err := rpcserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		stopping, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := errors.Join(s.Stop(stopping), <-served); err != nil {
			t.Error(err)
		}
	})
	return func(config *tls.Config) error {
		config.ServerName = "gate.test"
		conn, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		calling, done := context.WithTimeout(t.Context(), 5*time.Second)
		defer done()
		_, err = grpc_health_v1.NewHealthClient(conn).Check(calling, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
}

func TestTLS_ServesThoseWhoTrustIt(t *testing.T) {
	server := issue(t, t.TempDir(), "gate.test")
	ask := secured(t, rpcserver.Flags{TLSCert: server.cert, TLSKey: server.key})
	if err := ask(&tls.Config{RootCAs: server.pool}); err != nil {
		t.Error(err)
	}
	if err := ask(&tls.Config{RootCAs: issue(t, t.TempDir(), "gate.test").pool}); err == nil {
		t.Error("served one who does not trust it")
	}
	if err := ask(&tls.Config{RootCAs: server.pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("served TLS 1.1")
	}
}

func TestTLS_AsksForACertificateWhereAnAuthorityIsNamed(t *testing.T) {
	server, client, stranger := issue(t, t.TempDir(), "gate.test"), issue(t, t.TempDir(), "shop"), issue(t, t.TempDir(), "shop")
	ask := secured(t, rpcserver.Flags{TLSCert: server.cert, TLSKey: server.key, TLSClientCA: client.cert})
	if err := ask(&tls.Config{RootCAs: server.pool, Certificates: []tls.Certificate{client.pair}}); err != nil {
		t.Error(err)
	}
	for name, certs := range map[string][]tls.Certificate{"none": nil, "another authority's": {stranger.pair}} {
		if err := ask(&tls.Config{RootCAs: server.pool, Certificates: certs}); err == nil {
			t.Errorf("served a caller with certificate: %s", name)
		}
	}
}

func TestTLS_CertificateIsReplacedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	old := issue(t, dir, "gate.test")
	ask := secured(t, rpcserver.Flags{TLSCert: old.cert, TLSKey: old.key})
	if err := ask(&tls.Config{RootCAs: old.pool}); err != nil {
		t.Fatal(err)
	}
	renewed := issue(t, dir, "gate.test")
	var err error
	for begun := time.Now(); time.Since(begun) < 20*time.Second; {
		if err = ask(&tls.Config{RootCAs: renewed.pool}); err == nil {
			return
		}
	}
	t.Errorf("the new certificate is not served: %v", err)
}

func TestNew_RefusesCertificatesThatCannotBe(t *testing.T) {
	server := issue(t, t.TempDir(), "gate.test")
	other := issue(t, t.TempDir(), "other.test")
	for name, flags := range map[string]rpcserver.Flags{
		"no key":              {TLSCert: server.cert},
		"no certificate":      {TLSKey: server.key},
		"authority alone":     {TLSClientCA: server.cert},
		"another's key":       {TLSCert: server.cert, TLSKey: other.key},
		"no such file":        {TLSCert: server.cert + "x", TLSKey: server.key},
		"authority of no use": {TLSCert: server.cert, TLSKey: server.key, TLSClientCA: server.key},
	} {
		o := options()
		flags.GRPCAddr, flags.AdminAddr = o.Flags.GRPCAddr, o.Flags.AdminAddr
		o.Flags = flags
		_, err := rpcserver.New(o)
		if _, usage := err.(interface{ IsUsage() }); !usage || !strings.HasPrefix(err.Error(), "--tls-") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestListen_OffLoopbackIsClosedToStrangersOrSaidToBeOpen(t *testing.T) {
	server, clients := issue(t, t.TempDir(), "gate.test"), clientsFile(t)
	for name, c := range map[string]struct {
		flags rpcserver.Flags
		says  string
	}{
		"nothing":              {rpcserver.Flags{GRPCAddr: "0.0.0.0:0", AdminAddr: "127.0.0.1:0"}, "--clients-file and TLS"},
		"keys alone":           {rpcserver.Flags{GRPCAddr: "0.0.0.0:0", AdminAddr: "127.0.0.1:0", ClientsFile: clients}, "--clients-file and TLS"},
		"TLS alone":            {rpcserver.Flags{GRPCAddr: "[::]:0", AdminAddr: "127.0.0.1:0", TLSCert: server.cert, TLSKey: server.key}, "--clients-file and TLS"},
		"keys and TLS":         {rpcserver.Flags{GRPCAddr: "0.0.0.0:0", AdminAddr: "127.0.0.1:0", ClientsFile: clients, TLSCert: server.cert, TLSKey: server.key}, ""},
		"insecure":             {rpcserver.Flags{GRPCAddr: "0.0.0.0:0", AdminAddr: "0.0.0.0:0", Insecure: true}, ""},
		"admin port":           {rpcserver.Flags{GRPCAddr: "127.0.0.1:0", AdminAddr: "0.0.0.0:0"}, "--admin-insecure"},
		"admin port as wanted": {rpcserver.Flags{GRPCAddr: "127.0.0.1:0", AdminAddr: "0.0.0.0:0", AdminInsecure: true}, ""},
		"admin does not open gRPC": {
			rpcserver.Flags{GRPCAddr: "0.0.0.0:0", AdminAddr: "0.0.0.0:0", AdminInsecure: true}, "--clients-file and TLS",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Flags = c.flags
			s, err := rpcserver.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Stop(t.Context()) }()
			err = s.Listen(t.Context())
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}
