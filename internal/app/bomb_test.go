package app_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// TestCompressedRequestIsBounded: 1 GiB that was made small is refused before it
// is large again.
func TestCompressedRequestIsBounded(t *testing.T) {
	running, _ := begin(t, newProduction(), nil)
	server := httptest.NewServer(running.Handler())
	defer server.Close()
	var body bytes.Buffer
	writer := gzip.NewWriter(&body)
	if _, err := io.CopyN(writer, zeros{}, 1<<24); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	// A file of gzip may have many members: together 1 GB.
	body.Write(bytes.Repeat(bytes.Clone(body.Bytes()), 63))
	small := bytes.NewReader(body.Bytes()[:min(body.Len(), 1<<20)])
	request, err := http.NewRequest("POST", server.URL+"/lehr.api.v1.AssetService/ListAssets", small)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Content-Encoding", "gzip")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	response.Body.Close()
	runtime.ReadMemStats(&after)
	if response.StatusCode == http.StatusOK || !strings.Contains(string(text), "resource_exhausted") {
		t.Errorf("%s: %s", response.Status, text)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("it took %d MB", took>>20)
	}
	http.DefaultClient.CloseIdleConnections()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
