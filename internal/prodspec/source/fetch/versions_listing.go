package fetch

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"mime"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/versionlist"
)

// listPage lists files behind HTTP: by a JSON document, or by the links of a page such as those
// that web servers make of folders.
func (l *look) listPage(ctx context.Context) error {
	got, err := l.guard.get(ctx, request{url: l.remote.Listing, login: l.remote.Login, most: l.limits.FileBytes})
	if err != nil {
		return err
	}
	media, _, _ := mime.ParseMediaType(got.media)
	begins := bytes.TrimSpace(got.body)
	isJSON := strings.HasSuffix(media, "json") || bytes.HasPrefix(begins, []byte("[")) || bytes.HasPrefix(begins, []byte("{"))
	if !isJSON && (media == "text/html" || media == "application/xhtml+xml") {
		return l.listLinks(ctx, got.body)
	}
	items, err := itemsOf(got.body, l.remote.Items)
	if err != nil {
		return unreadable(l.remote.Listing, err)
	}
	for _, item := range items {
		l.addItem(item)
	}
	return nil
}

// listLinks takes the files of the page's own folder that it links to.
func (l *look) listLinks(ctx context.Context, page []byte) error {
	base, err := url.Parse(l.remote.Listing)
	if err != nil {
		return fault.New(fault.Invalid, "%s is no URL", quoted(l.remote.Listing))
	}
	sums, err := l.sums(ctx, base)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, link := range linksOf(page) {
		name, ok := fileIn(base, link)
		if !ok || seen[name] || name == l.remote.Sums {
			continue
		}
		seen[name] = true
		version, ok := l.matches(name)
		if !ok {
			continue
		}
		v := versionlist.Version{Version: version, Name: name, Digest: sums[name]}
		if l.remote.Sums != "" && v.Digest == "" {
			l.refuse(v, versionlist.Unreadable, "the file "+l.remote.Sums+" does not say its SHA-256")
			continue
		}
		l.add(v)
	}
	return nil
}

// linksOf are the targets of a page's links.
func linksOf(page []byte) (links []string) {
	for tokens := html.NewTokenizer(bytes.NewReader(page)); ; {
		switch tokens.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := tokens.TagName()
			for isLink := string(name) == "a"; more; {
				var key, value []byte
				key, value, more = tokens.TagAttr()
				if isLink && string(key) == "href" {
					links = append(links, string(value))
				}
			}
		}
	}
}

// fileIn is the name of a file that a link leads to, and ok whether that lies in the page's folder.
func fileIn(base *url.URL, link string) (name string, ok bool) {
	target, err := base.Parse(link)
	if err != nil || target.Host != base.Host || target.Scheme != base.Scheme || target.RawQuery != "" {
		return "", false
	}
	folder := base.Path
	if !strings.HasSuffix(folder, "/") {
		folder = path.Dir(folder) + "/"
	}
	name, ok = strings.CutPrefix(target.Path, folder)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// sums reads the digests of files as sha256sum writes them.
func (l *look) sums(ctx context.Context, base *url.URL) (map[string]string, error) {
	if l.remote.Sums == "" {
		return nil, nil
	}
	at, err := base.Parse(l.remote.Sums)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s is no name of a file", quoted(l.remote.Sums))
	}
	got, err := l.guard.get(ctx, request{url: at.String(), login: l.remote.Login, most: l.limits.FileBytes})
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(got.body)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 {
			return nil, unreadable(at.String(), errors.New("it has a line that is none of sha256sum"))
		}
		sums[name] = "sha256:" + strings.ToLower(sum)
	}
	return sums, nil
}
