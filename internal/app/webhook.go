package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

const (
	webhookPath = "/webhook/"
	// maxHook bytes and hookPatience bound what is read of somebody who has shown
	// no credential yet, and maxHooks how many are read at once.
	maxHook      = 1 << 20
	hookPatience = 10 * time.Second
	maxHooks     = 8
)

// refusedHook is one word for all that could be guessed at.
const refusedHook = "The webhook is not known, or was not signed by its secret. Whoever runs the server lists it in the file of --sources.\n"

// webhook takes a hint that the sources of a partition changed: they are looked
// at now. What it says beside that is not looked at, so it can do no more. It is
// signed as GitHub and Gitea do (X-Hub-Signature-256), or bears the secret as
// GitLab does (X-Gitlab-Token), or as registries and other programs do
// (Authorization: Bearer).
func (a *App) webhook(w http.ResponseWriter, r *http.Request) {
	select {
	case a.elsewhere.hooks <- struct{}{}:
		defer func() { <-a.elsewhere.hooks }()
	default:
		http.Error(w, "Too many webhooks at once.", http.StatusTooManyRequests)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(hookPatience))
	partition, err := intent.ParsePartitionID(r.PathValue("partition"))
	secrets := a.elsewhere.policy.Load().Hooks(partition)
	if err != nil || len(secrets) == 0 {
		http.Error(w, refusedHook, http.StatusForbidden)
		return
	}
	signature, signed := strings.CutPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256=")
	token := r.Header.Get("X-Gitlab-Token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token == "" {
		token = bearer
	}
	if !signed && token == "" {
		http.Error(w, refusedHook, http.StatusForbidden)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		http.Error(w, "The webhook has more than 1 MiB.", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "The webhook could not be read.", http.StatusBadRequest)
		return
	}
	verified := false
	for _, secret := range secrets {
		if signed {
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write(body)
			digest, err := hex.DecodeString(signature)
			verified = verified || err == nil && hmac.Equal(digest, mac.Sum(nil))
		} else {
			verified = verified || subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1
		}
	}
	if !verified {
		http.Error(w, refusedHook, http.StatusForbidden)
		return
	}
	// Through the store, for another replica may act for the partition.
	if err := a.store.Hint(r.Context(), partition); err != nil && !fault.Is(err, fault.NotFound) {
		http.Error(w, "The store cannot be written: try again.", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// hint has the sources of a partition looked at by whoever acts for it. One that
// is lost costs until the next look.
func (a *App) hint(ctx context.Context, partition intent.PartitionID) {
	if err := a.store.Hint(ctx, partition); err != nil && !fault.Is(err, fault.NotFound) {
		a.log.Warn("nobody was told that sources may have changed: it is found at the next look", "partition", partition, "error", err)
	}
}
