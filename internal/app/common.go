package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// noCommonPolicy in the place of a file drops the common policy that the store holds.
const noCommonPolicy = "none"

// commonMirror is the name under which the repository of the common policy is mirrored.
const commonMirror intent.PartitionID = "common-policy"

// openCommon opens the file of the common policy and has the store hold what it says. A
// server that is started without one goes on with the last, for no rule ends because a flag
// is missing; so does one whose file cannot be used, unless there was none.
func (a *App) openCommon(ctx context.Context) error {
	stored, err := a.store.CommonPolicy(ctx)
	if err != nil {
		return err
	}
	switch a.options.CommonPolicy {
	case "":
		if !stored.Digest.IsZero() {
			a.log.Warn("the server was started without the file of its common policy, and the last that was read still counts", "file", stored.Place, "hint", "name it with --common-policy, or end the rules with --common-policy none")
		}
		return nil
	case noCommonPolicy:
		return a.store.SetCommonPolicy(ctx, store.CommonPolicy{}, a.commonActor())
	}
	place := a.options.CommonPolicy
	elsewhere := a.elsewhere.options(a.options)
	elsewhere.Partition, elsewhere.Runtime, elsewhere.Wake = commonMirror, a.runtime, func() {}
	if a.common, err = prodspec.OpenPolicy(prodspec.Program{Definition: place, Place: a.options.Parts.Sources, Elsewhere: elsewhere}); err != nil {
		return err
	}
	problems, err := a.readCommon(ctx)
	if err == nil && len(problems) > 0 && stored.Digest.IsZero() {
		f := problems[0]
		err = fault.New(fault.Invalid, "the common policy cannot be used, and there is no earlier one: %s:%d: %s", f.File, f.Line, f.Message).WithHint("%s", f.Hint)
	}
	return err
}

func (a *App) commonActor() intent.Actor {
	return intent.Actor{Name: a.holder, Origin: intent.ServerOrigin}
}

// readCommon reads the file once. What is wrong with it is stored beside the last that could
// be used, which counts; an error is of the store.
func (a *App) readCommon(ctx context.Context) (problems []intent.Finding, err error) {
	next, problems := a.parseCommon(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(problems) > 0 {
		if next, err = a.store.CommonPolicy(ctx); err != nil {
			return problems, err
		}
		next.Place, next.Problems = a.options.CommonPolicy, problems
	}
	return problems, a.store.SetCommonPolicy(ctx, next, a.commonActor())
}

// parseCommon returns what the file says now, or what is wrong with it.
func (a *App) parseCommon(ctx context.Context) (store.CommonPolicy, []intent.Finding) {
	place := a.options.CommonPolicy
	broken := func(err error) []intent.Finding {
		f := validate.FromError("common-policy", "", err)
		f.File, f.Line = filepath.Base(place), 1
		return []intent.Finding{f}
	}
	content, revision, err := a.common.Read(ctx, a.runtime.Now())
	if err != nil {
		return store.CommonPolicy{}, broken(err)
	}
	common, findings := prodspec.ParsePolicy(place, content)
	if len(findings) > 0 {
		return store.CommonPolicy{}, findings
	}
	body, digest, err := commonpolicy.Encode(common.Policy)
	if err != nil {
		return store.CommonPolicy{}, broken(err)
	}
	return store.CommonPolicy{Body: body, Digest: digest, Place: place, Revision: revision}, nil
}

// followCommon reads the file again and again.
func (a *App) followCommon(ctx context.Context) {
	last := ""
	for a.runtime.Wait(ctx, policyLook, nil) == nil {
		problems, err := a.readCommon(ctx)
		text := ""
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			text = err.Error()
		case len(problems) > 0:
			text = fmt.Sprintf("%s:%d: %s", problems[0].File, problems[0].Line, problems[0].Message)
		}
		if text != last && text != "" {
			a.log.Error("the common policy cannot be used as it is now, and the last that could be still counts", "file", a.options.CommonPolicy, "error", text)
		} else if text != last {
			a.log.Info("the common policy can be used again", "file", a.options.CommonPolicy)
		}
		last = text
		a.registerMatching(ctx)
	}
}

// commonProblem says why the newest common policy does not count; empty: it does.
func (a *App) commonProblem() string {
	stored, err := a.store.CommonPolicy(context.Background())
	if err != nil || len(stored.Problems) == 0 {
		return ""
	}
	f := stored.Problems[0]
	return fmt.Sprintf("the common policy cannot be used since %s, and the last that could be counts: %s:%d: %s", stored.ProblemsSince.UTC().Format(time.RFC3339), f.File, f.Line, f.Message)
}

// takeCommon returns the common policy that a plan is made under, and has what is built asked by
// it, too.
func (b *Building) takeCommon(ctx context.Context, s store.Common) (store.CommonPolicy, error) {
	if b.Common == nil {
		stored, err := s.CommonPolicy(ctx)
		if err != nil {
			return stored, err
		}
		policy, err := commonpolicy.Decode(stored.Body)
		b.Common = func(context.Context) (*intentpb.CommonPolicy, error) { return policy, nil }
		return stored, err
	}
	policy, err := b.Common(ctx)
	if err != nil {
		return store.CommonPolicy{}, err
	}
	body, digest, err := commonpolicy.Encode(policy)
	return store.CommonPolicy{Body: body, Digest: digest}, err
}

// ReadCommonPolicy reads a common policy, wherever it lies.
func ReadCommonPolicy(ctx context.Context, place, sources string) (*intentpb.CommonPolicy, []intent.Finding, error) {
	content, err := ReadDefinition(ctx, place, sources)
	if err != nil {
		return nil, nil, err
	}
	common, findings := prodspec.ParsePolicy(place, content)
	return common.Policy, findings, nil
}
