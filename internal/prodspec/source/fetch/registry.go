package fetch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

// ociRepository is one repository of a container registry, for one look. It asks as the
// registry wants to be asked: without a word, by password, or by a token that
// another server gives for one.
type ociRepository struct {
	guard guard
	login source.Login
	// address of the repository, as people write it.
	address string
	base    *url.URL
	name    string
	basic   bool
	bearer  string
}

func newOCIRepository(g guard, address string, login source.Login) (*ociRepository, error) {
	base, err := url.Parse(address)
	if err != nil || strings.Trim(base.Path, "/") == "" {
		return nil, fault.New(fault.Invalid, "%s names no repository of a registry", quoted(address)).WithHint("write https://registry.example.com/team/name")
	}
	return &ociRepository{guard: g, login: login, address: address, base: base, name: strings.Trim(base.Path, "/")}, nil
}

// at is the URL of something of the repository.
func (r *ociRepository) at(rest string) string {
	return (&url.URL{Scheme: r.base.Scheme, Host: r.base.Host, Path: "/v2/" + r.name + "/" + rest}).String()
}

// tags lists all tags.
func (r *ociRepository) tags(ctx context.Context, most int64) (tags []string, err error) {
	const mostPages = 100
	next := r.at("tags/list") + "?n=1000"
	for range mostPages {
		got, err := r.get(ctx, request{url: next, most: most})
		if err != nil {
			return nil, err
		}
		var page struct{ Tags []string }
		if err := json.Unmarshal(got.body, &page); err != nil {
			return nil, unreadable(r.address, errors.New("its list of tags is not JSON"))
		}
		tags = append(tags, page.Tags...)
		link, ok := nextPage(got.header.Get("Link"))
		if !ok {
			return tags, nil
		}
		target, err := r.base.Parse(link)
		if err != nil || target.Host != r.base.Host || target.Scheme != r.base.Scheme {
			return nil, unreadable(r.address, errors.New("its list of tags goes on elsewhere"))
		}
		next = target.String()
	}
	return nil, tooMany(r.address, mostPages*1000)
}

var nextLink = regexp.MustCompile(`<([^>]+)>\s*;\s*rel="?next"?`)

func nextPage(header string) (string, bool) {
	m := nextLink.FindStringSubmatch(header)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// mostManifest is how many bytes a manifest has at most.
const mostManifest = 4 << 20

// manifest reads the manifest of a tag or a digest, and computes its digest.
func (r *ociRepository) manifest(ctx context.Context, reference, accept string) (body []byte, digest string, err error) {
	got, err := r.get(ctx, request{url: r.at("manifests/" + reference), accept: accept, most: mostManifest})
	if err != nil {
		return nil, "", err
	}
	digest = artifact.Digest(got.body)
	declared := got.header.Get("Docker-Content-Digest")
	if artifact.IsDigest(reference) && digest != reference || strings.HasPrefix(declared, "sha256:") && declared != digest {
		return nil, "", unreadable(r.address, fmt.Errorf("the manifest of %s is not what its digest says", reference))
	}
	return got.body, digest, nil
}

// resolve asks for the digest of a tag alone, which registries that count requests do
// not count; empty: the registry does not say it so.
func (r *ociRepository) resolve(ctx context.Context, tag, accept string) (string, error) {
	got, err := r.get(ctx, request{method: http.MethodHead, url: r.at("manifests/" + tag), accept: accept})
	if err != nil {
		return "", err
	}
	if digest := got.header.Get("Docker-Content-Digest"); artifact.IsDigest(digest) {
		return digest, nil
	}
	return "", nil
}

// blob reads content of so many bytes, and verifies its digest. Registries send
// elsewhere for it.
func (r *ociRepository) blob(ctx context.Context, digest string, bytes int64) ([]byte, error) {
	got, err := r.get(ctx, request{url: r.at("blobs/" + digest), most: bytes, elsewhere: true})
	if err != nil {
		return nil, err
	}
	return got.body, artifact.Verify("content of "+r.address, digest, got.body)
}

func (r *ociRepository) get(ctx context.Context, q request) (answer, error) {
	ask := func() (answer, error) {
		if r.basic {
			q.login = r.login
		}
		q.bearer = r.bearer
		return r.guard.get(ctx, q)
	}
	got, err := ask()
	if got.status != http.StatusUnauthorized || r.basic || r.bearer != "" {
		return got, err
	}
	challenge := got.header.Get("Www-Authenticate")
	kind, _, _ := strings.Cut(challenge, " ")
	switch {
	case strings.EqualFold(kind, "basic") && !r.login.Token.IsZero():
		r.basic = true
	case strings.EqualFold(kind, "bearer"):
		if r.bearer, err = r.token(ctx, challenge); err != nil {
			return answer{}, err
		}
	default:
		return got, err
	}
	return ask()
}

var parameter = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// token asks whom the registry names for one.
func (r *ociRepository) token(ctx context.Context, challenge string) (string, error) {
	parameters := map[string]string{}
	for _, m := range parameter.FindAllStringSubmatch(challenge, -1) {
		parameters[m[1]] = m[2]
	}
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Scheme != "https" && (realm.Scheme != "http" || realm.Host != r.base.Host) {
		return "", unreadable(r.base.Host, fmt.Errorf("it has tokens fetched at %s", quoted(parameters["realm"])))
	}
	query := realm.Query()
	query.Set("service", parameters["service"])
	query.Set("scope", "repository:"+r.name+":pull")
	realm.RawQuery = query.Encode()
	q := request{url: realm.String(), most: 1 << 20}
	if !r.login.Token.IsZero() {
		q.login = r.login
	}
	got, err := r.guard.get(ctx, q)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(got.body, &answer); err != nil || cmp.Or(answer.Token, answer.Access) == "" {
		return "", unreadable(realm.Host, errors.New("it gives no token"))
	}
	return cmp.Or(answer.Token, answer.Access), nil
}
