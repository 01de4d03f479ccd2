package rpcserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/gwanmun/gwanmun/pkg/reload"
)

// usageError is a flag that cannot be right.
type usageError struct {
	cause error
}

// Error is one line.
func (e usageError) Error() string { return e.cause.Error() }

// Unwrap is the cause.
func (e usageError) Unwrap() error { return e.cause }

// IsUsage tells a binary that what it was called with is wrong.
func (e usageError) IsUsage() {}

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// ServerTLS is TLS as the flags say; nil where they say none. The certificates
// are read again when their files change: a connection that stands is not
// touched by it.
func (f *Flags) ServerTLS(logger *slog.Logger) (*tls.Config, error) {
	switch {
	case f.TLSCert == "" && f.TLSKey == "" && f.TLSClientCA == "":
		return nil, nil
	case f.TLSCert == "":
		return nil, usagef("--tls-cert is missing: --tls-key and --tls-client-ca are of no use without it")
	case f.TLSKey == "":
		return nil, usagef("--tls-key is missing: --tls-cert is of no use without it")
	}
	paths := []string{f.TLSCert, f.TLSKey}
	if f.TLSClientCA != "" {
		paths = append(paths, f.TLSClientCA)
	}
	files, err := reload.Open(reload.Options{Name: "certificates", Logger: logger, Now: time.Now}, f.readTLS, paths...)
	if err != nil {
		return nil, usageError{err}
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.Get(), nil },
	}, nil
}

// readTLS makes a configuration of what stands in the files now.
func (f *Flags) readTLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{cert}}
	if f.TLSClientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(f.TLSClientCA)
	if err != nil {
		return nil, fmt.Errorf("--tls-client-ca: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("--tls-client-ca: the file holds no certificate in PEM")
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}

func (f *Flags) transport(logger *slog.Logger) (credentials.TransportCredentials, error) {
	config, err := f.ServerTLS(logger)
	if config == nil || err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}
