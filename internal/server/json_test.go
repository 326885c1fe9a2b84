package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/sdk/client"
)

// TestMisspeltFieldsAreRefused: what is not known would else be passed over,
// and a stop of one partition resumed for all.
func TestMisspeltFieldsAreRefused(t *testing.T) {
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	opened, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	api := server.New(server.Options{Store: opened, Schemas: builtin{}, Runtime: loop.Real(), Identify: access.CallerOf})
	listening := httptest.NewServer(access.InProcess(api.Handler()))
	defer listening.Close()
	ask := func(method, kind, body string) (int, string) {
		t.Helper()
		response, err := http.Post(listening.URL+"/lehr.api.v1."+method, kind, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if _, err := client.Dial(listening.URL, "", ann).Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Reason: "a fire"}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"application/json", "application/json; charset=utf-8"} {
		code, text := ask("BrakeService/Resume", kind, `{"partiton": "shop"}`)
		if code != http.StatusBadRequest || !strings.Contains(text, "line 1, column 2") || !strings.Contains(text, "partiton") {
			t.Errorf("%s: %d %s", kind, code, text)
		}
	}
	if code, text := ask("BrakeService/ListStops", "application/json", "{}"); code != http.StatusOK || !strings.Contains(text, "a fire") {
		t.Errorf("stops: %d %s", code, text)
	}
	if code, text := ask("BrakeService/Resume", "application/json", `{"reason": "out"}`); code != http.StatusOK {
		t.Errorf("resume: %d %s", code, text)
	}
	if code, text := ask("AssetService/WatchAssets", "application/connect+json", "\x00\x00\x00\x00\x0d"+`{"fitler":""}`); code != http.StatusOK || !strings.Contains(text, "fitler") {
		t.Errorf("watch: %d %q", code, text)
	}
}
