package resolver

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"filippo.io/age"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/secret/sops"
)

// reader reads what references name. It decides nothing: what it is asked for is
// permitted.
type reader struct {
	// serviceAccount is the folder of the credentials that a pod has.
	serviceAccount string
}

// read returns a value that is not empty, and belongs to the caller.
func (r reader) read(ctx context.Context, l *list, entries []listEntry, request secret.Request, ref *intentpb.SecretRef) (content []byte, err error) {
	name := secret.Name(ref)
	switch source := ref.Source.(type) {
	case *intentpb.SecretRef_Env:
		content, err = readVariable(source.Env)
	case *intentpb.SecretRef_File:
		content, err = readFile(source.File)
	case *intentpb.SecretRef_Command:
		content, err = run(ctx, entries[0])
	case *intentpb.SecretRef_Kubernetes:
		content, err = r.readKubernetes(ctx, l.Kubernetes, source.Kubernetes)
	case *intentpb.SecretRef_Sops:
		content, err = readDocument(ctx, entries, request, source.Sops)
	default:
		err = fault.New(fault.Invalid, "this version of the plugin does not know such a reference").WithHint("update the plugin")
	}
	switch {
	case err != nil:
		clear(content)
		return nil, named(name, err)
	case len(content) == 0:
		return nil, fault.New(fault.Invalid, "%s is empty", name).WithHint("write the secret into it; one that is empty is taken for one that is missing")
	case len(content) > maxSecret:
		clear(content)
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", name, maxSecret).WithHint("a secret is shorter")
	}
	return content, nil
}

// named says of which reference an error is, and keeps its kind and hint.
func named(name string, err error) error {
	kind := fault.Unavailable
	known, ok := errors.AsType[*fault.Error](err)
	if ok {
		kind = known.Kind
	}
	if ok && known.Hint != "" {
		return fault.New(kind, "reading %s: %s", name, known.Message).WithHint("%s", known.Hint).WithCause(err)
	}
	return fault.New(kind, "reading %s: %w", name, err)
}

func readVariable(name string) ([]byte, error) {
	value, ok := os.LookupEnv(name)
	if !ok {
		return nil, fault.New(fault.NotFound, "the plugin's environment does not have it").
			WithHint("set it for the program that starts the plugin; a plugin that Lehr starts has only variables that begin with LEHR_")
	}
	return []byte(value), nil
}

// readFile takes one newline off the end: editors put it there.
func readFile(path string) ([]byte, error) {
	content, err := readPrivate(path, files.Open)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "it is not there").WithHint("write it, or mend the path in intent and in the list of secrets")
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.New(fault.Denied, "the plugin's user may not read it").WithHint("chgrp it to a group of that user, with mode 0640")
	case err != nil:
		return nil, err
	}
	return withoutNewline(content), nil
}

func withoutNewline(content []byte) []byte { return bytes.TrimSuffix(content, []byte("\n")) }

// readDocument decrypts with all identities that the partition may have used.
func readDocument(ctx context.Context, entries []listEntry, request secret.Request, from *intentpb.SopsSecret) ([]byte, error) {
	if request.Blob == nil {
		return nil, fault.New(fault.Internal, "the document cannot be asked for")
	}
	document, err := request.Blob(ctx, from.GetDocument())
	if err != nil {
		return nil, fault.New(fault.Unavailable, "fetching the document: %w", err)
	}
	var identities []age.Identity
	for _, e := range entries {
		more, err := readIdentities(e.SOPS)
		if err != nil {
			return nil, err
		}
		identities = append(identities, more...)
	}
	return sops.Read(document, from.GetPath(), identities)
}

// readIdentities reads a file as age-keygen writes it.
func readIdentities(path string) ([]age.Identity, error) {
	content, err := readPrivate(path, files.OpenGiven)
	defer clear(content)
	if err != nil {
		return nil, fault.New(kindOr(err, fault.Unavailable), "reading the identities of age: %w", err).WithHint("the operator's list of secrets names the file, and the plugin's user must be able to read it")
	}
	identities, err := age.ParseIdentities(bytes.NewReader(content))
	if err != nil { // Its text may quote a line of the file.
		return nil, fault.New(fault.Invalid, "%s holds no identities of age that can be read", path).WithHint("make one: age-keygen -o FILE; one with a passphrase is not supported")
	}
	return identities, nil
}

// kindOr is the kind of an error, if it is the operator's or a person's to mend.
func kindOr(err error, other fault.Kind) fault.Kind {
	for _, kind := range []fault.Kind{fault.Denied, fault.Invalid} {
		if fault.Is(err, kind) {
			return kind
		}
	}
	return other
}
