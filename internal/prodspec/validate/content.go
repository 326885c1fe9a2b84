package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"buf.build/go/protovalidate"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// Contents applies the buf.validate rules of types to payloads and addons. It
// compiles a type's rules when first needed, and may be used by many goroutines.
type Contents struct {
	types *schema.Set
	rules protovalidate.Validator
}

// NewContents returns the rules of a set's types.
func NewContents(types *schema.Set) (*Contents, error) {
	rules, err := types.Rules()
	if err != nil {
		return nil, err
	}
	return &Contents{types: types, rules: rules}, nil
}

// Judge says what is wrong with an asset's payload and addons, of those types
// that are wanted.
func (c *Contents) Judge(asset intent.Asset, wanted func(intent.TypeName) bool) []intent.Finding {
	var findings []intent.Finding
	for i := -1; i < len(asset.Addons); i++ {
		content := asset.Payload
		if i >= 0 {
			content = asset.Addons[i]
		}
		if wanted(content.Type) {
			findings = append(findings, c.judge(asset.ID, content)...)
		}
	}
	return findings
}

func (c *Contents) judge(id intent.AssetID, content intent.Message) (findings []intent.Finding) {
	message, err := c.types.Unpack(content)
	if err != nil {
		return []intent.Finding{FromError("content", id, err)}
	}
	err = c.rules.Validate(message)
	if err == nil {
		return nil
	}
	violations, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return []intent.Finding{{
			Rule: "content", Severity: intent.Error, Asset: id, Field: string(content.Type),
			Message: fmt.Sprintf("the rules of %s cannot be applied to asset %s: %v", content.Type, id, err),
			Hint:    "mend the buf.validate options in the .proto file",
		}}
	}
	for _, violation := range violations.Violations {
		path := protovalidate.FieldPathString(violation.Proto.GetField())
		field, subject := string(content.Type), "the "+string(content.Type)
		if path != "" {
			field, subject = field+"."+path, path
		}
		text := violation.Proto.GetMessage()
		if text == "" {
			text = "it breaks the rule " + violation.Proto.GetRuleId()
		}
		findings = append(findings, intent.Finding{
			Rule: "content", Severity: intent.Error, Asset: id, Field: field,
			Message: fmt.Sprintf("asset %s: %s: %s", id, subject, text),
		})
	}
	// The entries of a map come in any order.
	slices.SortStableFunc(findings, func(a, b intent.Finding) int { return cmp.Compare(a.Field, b.Field) })
	return findings
}

// CheckRules compiles the rules of one type, and says what is wrong with them.
func (c *Contents) CheckRules(name intent.TypeName) error {
	message, err := c.types.New(name)
	if err != nil {
		return err
	}
	err = c.rules.Validate(message)
	if err == nil {
		return nil
	}
	if _, broken := errors.AsType[*protovalidate.CompilationError](err); broken {
		return err
	}
	return nil
}

// OwnTypes reports whether a type is one that users wrote. Their rules are
// theirs, and cost what they like: they are applied where a process may end.
func OwnTypes(name intent.TypeName) bool { return !schema.Builtin().Has(name) }

// LinkedTypes is the opposite of OwnTypes.
func LinkedTypes(name intent.TypeName) bool { return !OwnTypes(name) }

// Elsewhere applies the rules of users' own types to canonical assets, in a
// process that may end. An error concludes nothing.
type Elsewhere func(ctx context.Context, bodies [][]byte) ([]intent.Finding, error)

// Chunks of what is judged elsewhere.
const (
	chunkAssets = 1000
	chunkBytes  = 8 << 20
)

// elsewhere gathers what has types of users' own, and has it judged.
type elsewhere struct {
	*judging
	bodies [][]byte
	size   int
}

func (e *elsewhere) add(ctx context.Context, body []byte) error {
	if e.Elsewhere == nil || !hasOwn(body) {
		return nil
	}
	e.bodies, e.size = append(e.bodies, body), e.size+len(body)
	if len(e.bodies) < chunkAssets && e.size < chunkBytes {
		return nil
	}
	return e.flush(ctx)
}

func (e *elsewhere) flush(ctx context.Context) error {
	if len(e.bodies) == 0 {
		return nil
	}
	findings, err := e.Elsewhere(ctx, e.bodies)
	for _, finding := range findings {
		e.judging.add(finding)
	}
	e.bodies, e.size = nil, 0
	return err
}

func hasOwn(body []byte) bool {
	asset, err := schema.Decode(body)
	if err != nil {
		return false // It was judged already.
	}
	for _, addon := range asset.Addons {
		if OwnTypes(addon.Type) {
			return true
		}
	}
	return OwnTypes(asset.Payload.Type)
}
