package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// ports are where the core is spoken to in telegrams.
type ports struct{ frames, listings net.Listener }

func listen(ctx context.Context, cfg config, logger *slog.Logger) (ports, error) {
	var secured *tls.Config
	if cfg.CoreTLS {
		var err error
		if secured, err = cfg.Server.ServerTLS(logger); err != nil {
			return ports{}, err
		}
	}
	frames, err := bind(ctx, "frame", cfg.FrameAddr, cfg.Server.Insecure, secured)
	if err != nil {
		return ports{}, err
	}
	listings, err := bind(ctx, "listing", cfg.ListingAddr, cfg.Server.Insecure, secured)
	if err != nil {
		return ports{}, errors.Join(err, frames.Close())
	}
	return ports{frames: frames, listings: listings}, nil
}

// bind listens at a port that other machines reach only where telegrams are
// enciphered, or where that is wanted.
func bind(ctx context.Context, name, address string, insecure bool, secured *tls.Config) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	tcp, ok := listener.Addr().(*net.TCPAddr)
	switch {
	case secured != nil:
		return tls.NewListener(listener, secured), nil
	case ok && !tcp.IP.IsLoopback() && !insecure:
		err := fmt.Errorf("%s is not loopback: telegrams there need --core-tls, or --insecure", tcp)
		return nil, errors.Join(&cmdline.UsageError{Err: err}, listener.Close())
	default:
		return listener, nil
	}
}

// Close ends both.
func (p ports) Close() error { return errors.Join(p.frames.Close(), p.listings.Close()) }

// serve serves both until ctx is done or one of them cannot go on.
func (p ports) serve(ctx context.Context, link *simulator.Server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listingsEnded := make(chan error, 1)
	go func() {
		defer cancel()
		listingsEnded <- link.ServeListings(ctx, p.listings)
	}()
	err := link.Serve(ctx, p.frames)
	cancel()
	if listingErr := <-listingsEnded; !errors.Is(err, simulator.ErrBook) { // which both return
		err = errors.Join(err, listingErr)
	}
	return err
}
