// Package address tells of an IP address, as a name was resolved to it, where it
// leads: what a tenant names is dialled from this machine, and must not reach
// what only this machine can. It does no I/O. The sources of package fetch and
// the questions of package external ask it.
package address

import (
	"net/netip"
	"slices"
)

var (
	// metadata are addresses at which clouds give credentials to whoever asks,
	// and which no other rule covers.
	metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16")}
	// special are networks that lead to no public host, beside those that netip
	// knows.
	special = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	}
	// Addresses of IPv6 that lead to one of IPv4, which their last bytes, or
	// those after the first two, are.
	nat64, sixToFour = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16")
)

// plain is the address that one leads to in the end, without a zone.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	bytes := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return a
}

// In reports whether an address lies in one of the networks.
func In(networks []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) || n.Contains(plain(a)) })
}

// Own reports whether an address is this machine's or its link's, of no single
// host, or a cloud's metadata.
func Own(a netip.Addr) bool {
	a = plain(a)
	return a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() ||
		slices.Contains(metadata, a) || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// Public reports whether an address is anybody's to reach: not Own, nor of a
// private network.
func Public(a netip.Addr) bool {
	a = plain(a)
	return a.IsGlobalUnicast() && !a.IsPrivate() && !Own(a) && !In(special, a)
}
