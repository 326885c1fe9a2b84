// Package address tells of an IP address, as a name was resolved to it, where it
// leads: what a tenant names is dialled from this machine, and must not reach
// what only this machine can. It asks the system for the addresses of its own interfaces,
// and does no other I/O. The sources of package fetch and
// the questions of package external ask it.
package address

import (
	"net"
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
		netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b:1::/48"),
	}
	// Addresses of IPv6 that lead to one of IPv4, which their last bytes, or
	// those after the first two, are.
	nat64, sixToFour = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16")
	// localNAT64 is for translators of a network's own (RFC 8215), with prefixes of any
	// length in it (RFC 6052). compatible and translated are older forms, teredo has the
	// address inverted at its end.
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// plain is the address that one leads to in the end, without a zone.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	bytes := a.As16()
	switch {
	case !a.Is6():
	case nat64.Contains(a), translated.Contains(a), compatible.Contains(a) && a != netip.IPv6Loopback() && a != netip.IPv6Unspecified():
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^bytes[12], ^bytes[13], ^bytes[14], ^bytes[15]})
	}
	return a
}

// within are the addresses of IPv4 to which one may lead through a translator: of the
// prefix for a network's own all that RFC 6052 knows; of any other the last bytes, for
// a translator may have a prefix that nobody told us, and those of ISATAP.
func within(a netip.Addr) (list []netip.Addr) {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	list = append(list, netip.AddrFrom4([4]byte(b[12:])))
	if localNAT64.Contains(a) {
		// Byte 8 is left out.
		list = append(list, netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}), netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}), netip.AddrFrom4([4]byte{b[9], b[10], b[11], b[12]}))
	}
	return list
}

// machine are the addresses of this machine's interfaces.
var machine = interfaces

func interfaces() (list []netip.Addr) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, one := range found {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			list = append(list, prefix.Addr().Unmap().WithZone(""))
		}
	}
	return list
}

// In reports whether an address lies in one of the networks.
func In(networks []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) || n.Contains(plain(a)) })
}

// Own reports whether an address is this machine's or its link's, of no single
// host, or a cloud's metadata; or leads to one of these through a translator.
func Own(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	ours := machine()
	if own(plain(a), ours) || slices.Contains(ours, a) {
		return true
	}
	for _, inner := range within(a) {
		// What stands at the end of an address by chance is not unspecified or a
		// multicast group.
		if inner.IsLoopback() || inner.IsLinkLocalUnicast() || slices.Contains(metadata, inner) || slices.Contains(ours, inner) {
			return true
		}
	}
	return false
}

func own(a netip.Addr, ours []netip.Addr) bool {
	return a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || slices.Contains(ours, a) ||
		slices.Contains(metadata, a) || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// Public reports whether an address is anybody's to reach: not Own, nor of a
// private network.
func Public(a netip.Addr) bool {
	end := plain(a)
	return end.IsGlobalUnicast() && !end.IsPrivate() && !Own(a) && !In(special, end)
}
