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

	"lehr.dev/fault"
)

// dialer refuses addresses after names were resolved, so that no name leads
// where it may not.
func (g guard) dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return g.address(to.Addr())
	}}
}

// resolve returns an address of a host that may be reached, for programs that
// dial themselves.
func (g guard) resolve(ctx context.Context, host string) (netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, unreadable(host, reason(err))
	}
	var refused error
	for _, a := range found {
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
	if e, is := errors.AsType[*url.Error](err); is {
		err = e.Err
	}
	if e, is := errors.AsType[*fs.PathError](err); is {
		return e.Err
	}
	if e, is := errors.AsType[*net.DNSError](err); is {
		return errors.New("no address of " + e.Name + " is known: " + e.Err)
	}
	if e, is := errors.AsType[*net.OpError](err); is {
		if no, is := errors.AsType[syscall.Errno](e.Err); is {
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
