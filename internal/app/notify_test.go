package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/notify"
)

// TestNotificationsAreSent: from the definition to the target, while another one hangs and
// pushes go on; a target that the partition may not use is not told.
func TestNotificationsAreSent(t *testing.T) {
	var lock sync.Mutex
	told := map[string][]string{}
	release := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m notify.Message
		if json.Unmarshal(body, &m) == nil {
			lock.Lock()
			told[r.URL.Path] = append(told[r.URL.Path], m.Name+" "+m.Status)
			lock.Unlock()
		}
		if r.URL.Path == "/hung" {
			<-release
		}
	}))
	defer target.Close()
	defer close(release)
	t.Setenv("CHAT_URL", target.URL+"/chat")
	t.Setenv("HUNG_URL", target.URL+"/hung")
	t.Setenv("THEIRS_URL", target.URL+"/theirs")
	policy := filepath.Join(t.TempDir(), "notifications.yaml")
	if err := os.WriteFile(policy, []byte("notifications: v1\nnetworks: [127.0.0.0/8, '::1/128']\ntargets:\n"+
		"- {name: chat, webhook: {env: CHAT_URL}, partitions: [one]}\n- {name: hung, webhook: {env: HUNG_URL}, partitions: [one]}\n"+
		"- {name: theirs, webhook: {env: THEIRS_URL}, partitions: [two]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := partition(t, "one", "a", "b")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, []byte("notifications:\n  begun: {of: partition, when: has(partition.published), to: [hung, theirs, chat]}\n")...), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProduction()
	_, opened := begin(t, p, map[intent.PartitionID]string{"one": path}, func(o *app.Options) { o.Notifications = policy })
	eventually(t, "it is told, and pushed", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(told["/chat"]) > 0 && len(told["/hung"]) > 0 && p.has("a") && p.has("b")
	})
	eventually(t, "the target that it may not use is known to fail", func() bool {
		state, err := notify.Load(t.Context(), opened, "one")
		return err == nil && state.Targets["theirs"] != nil && strings.Contains(state.Targets["theirs"].Problem, "has no target")
	})
	lock.Lock()
	defer lock.Unlock()
	if len(told["/chat"]) != 1 || told["/chat"][0] != "begun firing" || len(told["/theirs"]) != 0 {
		t.Errorf("told are %v", told)
	}
}
