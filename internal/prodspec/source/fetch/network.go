package fetch

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"lehr.dev/internal/ground/fault"
)

// dialer refuses addresses after names were resolved, so that no name leads
// where it may not.
func (g guard) dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return g.address(target.Addr())
	}}
}

// resolve returns an address of a host that may be reached, for programs that
// dial themselves.
func (g guard) resolve(ctx context.Context, host string) (netip.Addr, error) {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, unreadable(host, reason(err))
	}
	var refused error
	for _, a := range addresses {
		if err := g.address(a); err != nil {
			refused = err
			continue
		}
		return a.Unmap(), nil
	}
	return netip.Addr{}, refused
}

// reason is an error without the address and the port, which differ each time.
func reason(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("no address of " + e.Name + " is known: " + e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if no, ok := errors.AsType[syscall.Errno](e.Err); ok {
			return no
		}
		return e.Err
	}
	return err
}

// transport of one look: it keeps no connection.
func (g guard) transport() *http.Transport {
	return &http.Transport{
		DialContext: g.dialer().DialContext, DisableKeepAlives: true, DisableCompression: true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
}
