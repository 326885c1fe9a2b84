package address_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"lehr.dev/internal/ground/address"
)

func TestWhereAddressesLead(t *testing.T) {
	for text, want := range map[string]struct{ own, public bool }{
		"93.184.216.34":      {public: true},
		"2606:2800:220:1::1": {public: true},
		"64:ff9b::5db8:d822": {public: true},
		"10.1.2.3":           {},
		"192.168.0.1":        {},
		"fd12::1":            {},
		"100.64.0.1":         {},
		"198.18.0.1":         {},
		"240.0.0.1":          {},
		"0.1.2.3":            {},
		"64:ff9b::a01:203":   {}, // 10.1.2.3
		"127.0.0.1":          {own: true},
		"127.8.8.8":          {own: true},
		"::1":                {own: true},
		"::ffff:127.0.0.1":   {own: true},
		"64:ff9b::7f00:1":    {own: true},
		"2002:7f00:1::":      {own: true},
		"2002:a9fe:a9fe::1":  {own: true},
		"169.254.169.254":    {own: true},
		"fe80::1%eth0":       {own: true},
		"0.0.0.0":            {own: true},
		"::":                 {own: true},
		"224.0.0.1":          {own: true},
		"ff02::1":            {own: true},
		"255.255.255.255":    {own: true},
		"fd00:ec2::254":      {own: true},
		"100.100.100.200":    {own: true},
		"168.63.129.16":      {own: true},
		"64:ff9b::a83f:8110": {own: true}, // 168.63.129.16
		// Translators of a network's own, of each length, and older forms.
		"64:ff9b:1::7f00:1":         {own: true},
		"64:ff9b:1:7f00:0:100::":    {own: true},
		"64:ff9b:1:a9fe:a9:fe00::":  {own: true},
		"64:ff9b:1:7f:0:1::":        {own: true},
		"64:ff9b:1::7f:0:100:0":     {own: true},
		"64:ff9b:1::5db8:d822":      {},
		"2001:db8:64::7f00:1":       {own: true},
		"2001:db8:64::a9fe:a9fe":    {own: true},
		"::127.0.0.1":               {own: true},
		"::ffff:0:127.0.0.1":        {own: true},
		"fe80::5efe:7f00:1":         {own: true},
		"2001:db8::5efe:127.0.0.1":  {own: true},
		"2001:0:1234::80ff:fffe":    {own: true}, // Teredo of 127.0.0.1
		"2606:4700:4700::1111":      {public: true},
		"2a00:1450:4001:81c::200e":  {public: true},
		"2600:1f18:1234:5678::10:1": {public: true},
	} {
		a := netip.MustParseAddr(text)
		if address.Own(a) != want.own || address.Public(a) != want.public {
			t.Errorf("%s: own %t, public %t; want %+v", text, address.Own(a), address.Public(a), want)
		}
	}
	networks := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for text, want := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "64:ff9b::7f00:1": true, "::1": false, "10.0.0.1": false} {
		if address.In(networks, netip.MustParseAddr(text)) != want {
			t.Errorf("%s: in %v is not %t", text, networks, want)
		}
	}
}

// TestThisMachinesAddressesAreItsOwn: also those that others reach it at.
func TestThisMachinesAddressesAreItsOwn(t *testing.T) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		a := netip.MustParsePrefix(one.String()).Addr()
		if !address.Own(a) || address.Public(a) {
			t.Errorf("%s is not this machine's own", a)
		}
		if a.Is4() {
			b := a.As4()
			for _, text := range []string{fmt.Sprintf("::ffff:%s", a), fmt.Sprintf("64:ff9b::%02x%02x:%02x%02x", b[0], b[1], b[2], b[3]), fmt.Sprintf("64:ff9b:1::%02x%02x:%02x%02x", b[0], b[1], b[2], b[3]), fmt.Sprintf("2001:db8:46::%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])} {
				if !address.Own(netip.MustParseAddr(text)) {
					t.Errorf("%s leads to %s and is not this machine's own", text, a)
				}
			}
		}
	}
}
