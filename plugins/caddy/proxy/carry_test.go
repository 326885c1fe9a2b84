package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// sharedPair is two listeners on one socket, as of two configurations.
func sharedPair(t *testing.T) (before, after net.Listener) {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(probe.Addr().String())
	probe.Close()
	var pair [2]net.Listener
	for i := range pair {
		listener, err := listenShared(t.Context(), network, host, port, 0, net.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		pair[i] = listener.(net.Listener)
		t.Cleanup(func() { pair[i].Close() })
	}
	return pair[0], pair[1]
}

func answering(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, name+" "+r.Method+" "+string(body))
	})
}

// TestARequestBetweenTwoConfigurations begins a request at one server, shuts
// that down, and ends the request.
func TestARequestBetweenTwoConfigurations(t *testing.T) {
	for name, one := range map[string]struct{ begin, end, answer string }{
		"a GET, in its middle":   {"GET / HTTP/1.1\r\nHo", "st: x\r\n\r\n", "after GET "},
		"a HEAD, in its method":  {"HE", "AD / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		"a POST is not repeated": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Le", "ngth: 2\r\n\r\nhi", "dropped"},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := sharedPair(t)
			read := make(chan struct{})
			before := &http.Server{Handler: answering("before"), ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					close(read)
				}
			}}
			stopping := make(chan struct{})
			before.RegisterOnShutdown(func() { close(stopping) })
			go before.Serve(first)
			client, err := net.Dial("tcp", first.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			io.WriteString(client, one.begin)
			<-read
			after := &http.Server{Handler: answering("after")}
			defer after.Close()
			go after.Serve(second)
			stopped := make(chan error, 1)
			go func() { stopped <- before.Shutdown(context.Background()) }()
			<-stopping
			io.WriteString(client, one.end)
			got := "dropped"
			response, err := http.ReadResponse(bufio.NewReader(client), &http.Request{Method: one.begin[:min(4, len(one.begin))]})
			if err == nil {
				body, _ := io.ReadAll(io.LimitReader(response.Body, int64(len(one.answer))))
				got = string(body)
			}
			if got != one.answer {
				t.Errorf("the client gets %q (%v), want %q", got, err, one.answer)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}

// The last share closes the socket, and not before.
func TestTheLastShareClosesTheSocket(t *testing.T) {
	first, second := sharedPair(t)
	address := first.Addr().String()
	first.Close()
	first.Close() // Once more changes nothing.
	if _, err := first.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed share accepts: %v", err)
	}
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := second.Accept(); err != nil {
		t.Fatal(err)
	}
	second.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the address is still taken: %v", err)
	}
	listener.Close()
}
