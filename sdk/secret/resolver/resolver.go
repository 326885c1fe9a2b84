// Package resolver reads the secrets that references of intent name, where the
// operator's list lets the partition and the plugin name them: variables, files,
// commands, Secrets of Kubernetes, documents of SOPS. It reads a secret at most once in
// a time, one reader at once, and keeps the value for that time only, its keyed digest
// for longer. It never writes, and no error of its holds a value. The main of a plugin
// makes one Resolver; the plugin's resources ask it.
package resolver

import (
	"context"
	"flag"
	"os"
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

const (
	// variable names the list where no flag does.
	variable = "LEHR_SECRET_LIST"
	// cadence is how old a value may be that a look takes.
	cadence = 30 * time.Second
	// failurePause is how long a failure counts for looks, so that many assets with
	// one reference do not each wait for it.
	failurePause = 5 * time.Second
	// patience is how long a look waits for a value that is being read. The reading
	// goes on: the next look has it.
	patience = 3 * time.Second
	// readWithin bounds one reading.
	readWithin = 10 * time.Second
	// atOnce bounds how many are read together by Prefetch.
	atOnce = 16
	// maxKept bounds how many references are kept.
	maxKept = 10_000
)

// Resolver reads secrets for one plugin. Its methods are called from many goroutines.
type Resolver struct {
	plugin string
	path   string
	reader reader

	mutex sync.Mutex
	// list as it was read last, of files with that stamp, or why it cannot be used.
	list    *list
	listErr error
	stamp   string
	kept    map[string]*kept
}

// New returns a Resolver of a plugin of that name, by the list at a path; empty: by
// none, which permits nothing.
func New(plugin, path string) *Resolver {
	return &Resolver{plugin: plugin, path: path, kept: map[string]*kept{}, reader: reader{serviceAccount: serviceAccountFolder}}
}

// Flag defines --secret-list, of which the default is in LEHR_SECRET_LIST, and returns the
// Resolver that goes by it. A plugin calls it before it reads its flags.
func Flag(flags *flag.FlagSet, plugin string) *Resolver {
	r := New(plugin, os.Getenv(variable))
	flags.StringVar(&r.path, "secret-list", r.path, "the operator's list of secrets, a `FILE` of YAML; default: what "+variable+" names")
	return r
}

// Resolve returns the value that a reference names now. A look takes what was read
// within 30 s, and waits 3 s at most; a push what was read since it began. Denied:
// the operator's list does not let the partition and this plugin name it, or it may not
// be read. NotFound: it is not there. Invalid: it is of no use. Unavailable: it cannot
// be read now. secret.ErrRotated: it changed since the push was planned.
func (r *Resolver) Resolve(ctx context.Context, request secret.Request, ref *intentpb.SecretRef) (secret.Value, error) {
	name := secret.Name(ref)
	permitted, entries, err := r.permitted(request.Partition, ref)
	if err != nil {
		return secret.Value{}, err
	}
	k := r.keep(string(request.Partition) + "\n" + secret.Key(ref))
	result, err := k.get(ctx, request.Push, name, func(ctx context.Context) result {
		content, err := r.reader.read(ctx, permitted, entries, request, ref)
		if err != nil {
			return result{err: err}
		}
		digest := permitted.digest(ref, content)
		secret.Know(secret.Key(ref), content, digest)
		return result{content: content, digest: digest}
	})
	if err != nil {
		return secret.Value{}, err
	}
	if request.Push != nil {
		if err := request.Push.Bind(secret.Key(ref), name, result.digest); err != nil {
			clear(result.content)
			return secret.Value{}, err
		}
	}
	return secret.NewValue(result.content, result.digest), nil
}

// Ask is a reference with the request that it belongs to.
type Ask struct {
	Request secret.Request
	Ref     *intentpb.SecretRef
}

// Prefetch reads what references name, several at once, so that Resolve has it. It ends
// when all are read, or within the time that a look waits for one, and tells no
// errors: Resolve does.
func (r *Resolver) Prefetch(ctx context.Context, asks []Ask) {
	slots := make(chan struct{}, atOnce)
	var reading sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, ask := range asks {
		reading.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			if value, err := r.Resolve(ctx, ask.Request, ask.Ref); err == nil {
				value.Wipe()
			}
		})
	}
	reading.Wait()
}

// DigestOf returns the digest that a value would have if the reference named it. So a
// plugin compares what production has with what it should have. Denied: the
// reference may not be named.
func (r *Resolver) DigestOf(partition intent.PartitionID, ref *intentpb.SecretRef, value []byte) (secret.Digest, error) {
	permitted, _, err := r.permitted(partition, ref)
	if err != nil {
		return secret.Digest{}, err
	}
	digest := permitted.digest(ref, value)
	secret.Know(secret.Key(ref), value, digest)
	return digest, nil
}

// DigestOfFound returns the digest of a secret that no reference names and that the plugin
// found at a place of its own, such as an attribute that a provider marks as sensitive. From
// then on the value is shown nowhere. Denied: there is no list of secrets, and so no key.
func (r *Resolver) DigestOfFound(place string, value []byte) (secret.Digest, error) {
	if r == nil || r.path == "" {
		return secret.Digest{}, fault.New(fault.Denied, "this plugin was given no list of secrets, and so no key for the digest of a secret").
			WithHint("whoever runs the plugin gives it one, by --secret-list FILE or %s: docs/operate/secrets.md", variable)
	}
	l, err := r.current()
	if err != nil {
		return secret.Digest{}, err
	}
	digest := secret.DigestOfFound(l.key, place, value)
	secret.Know("found "+place, value, digest)
	return digest, nil
}

// digest of a value, under the list's key.
func (l *list) digest(ref *intentpb.SecretRef, value []byte) secret.Digest {
	return secret.DigestOf(l.key, ref, value)
}

// permitted returns the list, and its entries for the reference.
func (r *Resolver) permitted(partition intent.PartitionID, ref *intentpb.SecretRef) (*list, []listEntry, error) {
	if ref.GetSource() == nil {
		return nil, nil, fault.New(fault.Invalid, "a reference to a secret says nowhere where it is").WithHint("set env, file, command, kubernetes or sops")
	}
	if r == nil || r.path == "" {
		return nil, nil, fault.New(fault.Denied, "%s: not listed, for this plugin was given no list of secrets", secret.Name(ref)).
			WithHint("whoever runs the plugin gives it one, by --secret-list FILE or %s: docs/operate/secrets.md", variable)
	}
	l, err := r.current()
	if err != nil {
		return nil, nil, err
	}
	entries := l.entries(partition, r.plugin, ref)
	if len(entries) == 0 {
		return nil, nil, fault.New(fault.Denied, "%s: not listed for partition %s and plugin %s", secret.Name(ref), partition, r.plugin).
			WithHint("whoever runs the plugin adds it to secrets, in %s", l.path)
	}
	return l, entries, nil
}

// current returns the list, read again when its file or its key changed. What was kept
// under another list does not count any more.
func (r *Resolver) current() (*list, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	key := ""
	if r.list != nil {
		key = r.list.Key
	}
	now := (&list{path: r.path, Key: key}).stamp()
	if r.listErr == nil && r.list != nil && r.stamp == now {
		return r.list, nil
	}
	r.list, r.listErr = readList(r.path)
	for _, k := range r.kept {
		k.drop()
	}
	clear(r.kept)
	if r.listErr == nil {
		r.stamp = r.list.stamp()
	}
	return r.list, r.listErr
}

// keep returns what is kept of a reference.
func (r *Resolver) keep(key string) *kept {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	k := r.kept[key]
	if k == nil {
		if len(r.kept) >= maxKept {
			for other, old := range r.kept { // Any will do: it is read again when it is needed.
				old.drop()
				delete(r.kept, other)
				break
			}
		}
		k = &kept{}
		r.kept[key] = k
	}
	return k
}
