// Command switches simulates a fabric of twenty network switches over HTTP, and the pager of those who
// keep it. It is what the other files of this folder upgrade, see README.md.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	listen := flag.String("listen", "127.0.0.1:9180", "address of the switches and of the pager")
	reboot := flag.Duration("reboot", 2*time.Second, "how long a reboot takes")
	faults := flag.String("faults", "", "what goes wrong, such as s07=verify-fails,s12=reboot-hangs")
	flag.Parse()
	f := newFabric(*reboot)
	for _, entry := range strings.Split(*faults, ",") {
		name, fault, _ := strings.Cut(entry, "=")
		if entry != "" && !f.order(name, fault) {
			fmt.Fprintf(os.Stderr, "switches: --faults %q: write NAME=FAULT with one of the switches s01 to s20, and one of %s\n", entry, strings.Join(faultNames, ", "))
			return 2
		}
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "switches:", err)
		return 1
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	fmt.Fprintln(os.Stderr, "switches:", http.Serve(listener, f))
	return 1
}
