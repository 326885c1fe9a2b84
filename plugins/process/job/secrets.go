package job

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// variableSecrets names the variables of a task that hold secrets. They are in no
// other list, so that a value is never shown, whatever intent says by then.
const variableSecrets = "LEHR_SECRET_ENV"

// What is said of a secret variable in place of its digest.
const (
	// notWanted: intent has no reference any more, under which a digest could be.
	notWanted = "secret (intent names none)"
	// noDigest: the reference may not be read, which Resolve says.
	noDigest = "secret (not compared)"
	// notMarked: the value is right, but the process does not say that it is a secret,
	// so once intent has none it would be shown.
	notMarked = ", not marked as one"
)

// secrets of one job: what its secret variables hold, in production and by intent.
type secrets struct {
	resolver *resolver.Resolver
	request  secret.Request
	// words by variable, of the values that intent names; nil: they are not known.
	words map[string]string
	// values by variable; only a roll has them.
	values map[string]secret.Value
}

// secretsOf reads what the job's references name. With an error the words are not known.
func (j Jobs) secretsOf(ctx context.Context, request secret.Request, job *processpb.Job) (secrets, error) {
	s := secrets{resolver: j.Secrets, request: request}
	words, values := map[string]string{}, map[string]secret.Value{}
	for _, name := range slices.Sorted(maps.Keys(job.SecretEnv)) {
		value, err := j.Secrets.Resolve(ctx, request, job.SecretEnv[name])
		if err == nil && bytes.IndexByte(value.Reveal(), 0) >= 0 {
			err = serve.Errorf(serve.Invalid, "%s holds a zero byte, which no variable can", secret.Name(job.SecretEnv[name])).WithHint("have the program read the file itself")
		}
		if err != nil {
			wipe(values)
			return s, fmt.Errorf("secret_env[%q] of job %s: %w", name, job.Name, err)
		}
		words[name], values[name] = value.Digest().Words(), value
	}
	s.words, s.values = words, values
	return s, nil
}

func wipe(values map[string]secret.Value) {
	for _, value := range values {
		value.Wipe()
	}
}

// seenSecrets is secretsOf without values, for looks. What cannot be read is told by
// Resolve, which is asked next.
func (j Jobs) seenSecrets(ctx context.Context, request secret.Request, job *processpb.Job) secrets {
	s, _ := j.secretsOf(ctx, request, job)
	wipe(s.values)
	s.values = nil
	return s
}

// prefetch has all references of the jobs read at once.
func (j Jobs) prefetch(ctx context.Context, assets []serve.Asset[*processpb.Job]) {
	var asks []resolver.Ask
	for _, asset := range assets {
		if asset.TurnedDown() {
			continue
		}
		for _, ref := range asset.Payload.SecretEnv {
			asks = append(asks, resolver.Ask{Request: asset.SecretRequest(), Ref: ref})
		}
	}
	if len(asks) > 1 {
		j.Secrets.Prefetch(ctx, asks)
	}
}

// intended is the task as it should run, with the digests of its secrets.
func (s secrets) intended(job *processpb.Job, number uint32) *processpb.Task {
	task := intended(job, number)
	if len(s.words) > 0 {
		task.SecretEnv = maps.Clone(s.words)
	}
	return task
}

// variables are those of a task's environment that hold secrets, and their names.
func (s secrets) variables() []string {
	if len(s.values) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.values))
	list := []string{variableSecrets + "=" + strings.Join(names, ",")}
	for _, name := range names {
		list = append(list, name+"="+string(s.values[name].Reveal()))
	}
	return list
}

// seen tells what the secret variables of a process hold, by digests under the
// references of the job.
func (s secrets) seen(job *processpb.Job, p process) map[string]string {
	var found map[string]string
	marked := p.secretNames()
	for _, name := range slices.Concat(marked, slices.Collect(maps.Keys(job.SecretEnv))) {
		value, ok := p.environment[name]
		if !ok || name == "" {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[name] = s.wordsOf(job, name, value)
		if !slices.Contains(marked, name) {
			found[name] += notMarked
		}
	}
	return found
}

func (s secrets) wordsOf(job *processpb.Job, name, value string) string {
	ref := job.SecretEnv[name]
	if ref == nil {
		return notWanted
	}
	digest, err := s.resolver.DigestOf(s.request.Partition, ref, []byte(value))
	if err != nil {
		return noDigest
	}
	return digest.Words()
}

// secretNames are the variables that a process says hold secrets.
func (p process) secretNames() []string {
	if p.environment[variableSecrets] == "" {
		return nil
	}
	return strings.Split(p.environment[variableSecrets], ",")
}
