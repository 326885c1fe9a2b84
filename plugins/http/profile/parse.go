package profile

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/sdk/allowlist"
)

//go:embed ready/*.yaml
var ready embed.FS

// Ready lists the profiles that come with the program.
func Ready() (names []string) {
	entries, _ := ready.ReadDir("ready") // It is linked in.
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// OpenReady returns a profile that comes with the program.
func OpenReady(name string) (*Profile, error) {
	if !slices.Contains(Ready(), name) {
		return nil, fmt.Errorf("there is no ready profile %q: write one of %s, or the path of a file that ends in .yaml", name, strings.Join(Ready(), ", "))
	}
	file := path.Join("ready", name+".yaml")
	text, err := ready.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, text)
}

// CallsName is the name of Calls in a list of endpoints.
const CallsName = "calls"

// Calls is the profile of an API that is only called: it knows no kinds of things, so nothing of
// it is kept by lehr-http.
func Calls() *Profile {
	retries := defaultRetries
	return &Profile{Name: CallsName, RequestsPerSecond: defaultRate, Timeout: Duration{defaultTimeout}, Retries: &retries}
}

// kind of file that a profile is.
var kind = allowlist.Kind{Name: "profile of an API", Key: "http-profile", Flag: "endpoints", Page: "docs/operate/http-endpoints.md"}

// Parse reads a profile, fills in its defaults and checks it.
func Parse(file string, text []byte) (*Profile, error) {
	p := &Profile{}
	if err := allowlist.Decode(file, text, kind, p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func (p *Profile) check() error {
	if p.RequestsPerSecond == 0 {
		p.RequestsPerSecond = defaultRate
	}
	if p.Timeout.Duration == 0 {
		p.Timeout.Duration = defaultTimeout
	}
	if p.Retries == nil {
		retries := defaultRetries
		p.Retries = &retries
	}
	switch {
	case p.RequestsPerSecond < 0.01 || p.RequestsPerSecond > 1000:
		return fmt.Errorf("requests_per_second is %v: write 0.01 to 1000", p.RequestsPerSecond)
	case p.Timeout.Duration < 0 || p.Timeout.Duration > maxTimeout:
		return fmt.Errorf("timeout is %v: write at most %v", p.Timeout, maxTimeout)
	case *p.Retries < 0 || *p.Retries > 5:
		return fmt.Errorf("retries is %d: write 0 to 5", *p.Retries)
	case len(p.Resources) == 0:
		return errors.New("it has no resources: name what can be read, under resources")
	}
	for name, resource := range p.Resources {
		if resource == nil {
			return fmt.Errorf("resource %s is empty: say how it is read", name)
		}
		if err := resource.check(); err != nil {
			return fmt.Errorf("resource %s: %w", name, err)
		}
	}
	return nil
}

func (r *Resource) check() error {
	switch {
	case len(r.Identity) == 0:
		return errors.New("it has no identity: say what identifies a thing, as identity: {uid: /uid}")
	case r.Read == nil && r.List == nil:
		return errors.New("it has neither read nor list: say how a thing is read")
	case r.Read == nil && !r.List.Complete:
		return errors.New("its list is not complete, and it has no read: add complete: true, or read")
	case r.Compare != nil && !r.Compare.ETag && r.Compare.At == nil:
		return errors.New("compare has neither etag nor at: say what a write is compared with")
	case r.Compare != nil && r.Compare.At == nil && (r.Compare.Send != nil || r.Compare.SendDelete != nil):
		return errors.New("compare has send without at: say where the version is read")
	case r.Compare != nil && r.Compare.ETag && r.Read == nil:
		return errors.New("compare: etag needs read: an item of a list has no ETag")
	}
	for name, place := range r.Identity {
		if !nameOf.MatchString(name) {
			return fmt.Errorf("identity %q is no name: use small letters, digits and _", name)
		}
		if r.Read == nil && len(place.Parts) == 0 {
			return fmt.Errorf("identity %s has no place, and things are found in a list: say where an item has it", name)
		}
	}
	for text := range r.Fields {
		if parts, err := jsonvalue.ParsePointer(text); err != nil || len(parts) == 0 {
			return fmt.Errorf("fields has %q, which is no place in a body: write for example /title", text)
		}
	}
	for text, key := range r.Lists {
		if parts, err := jsonvalue.ParsePointer(text); err != nil || len(parts) == 0 || key == "" {
			return fmt.Errorf("lists has %q: %q: write the place of a list and the key of its elements, as /panels: id", text, key)
		}
	}
	if err := r.checkRequests(); err != nil {
		return err
	}
	return r.checkList()
}

func (r *Resource) checkRequests() error {
	if r.Read != nil {
		if len(r.Read.Absent) == 0 {
			return errors.New("read has no absent: say which answer means that nothing is there, as absent: [{status: 404}]")
		}
		for _, absent := range r.Read.Absent {
			if absent.Status < 200 || absent.Status > 499 || absent.Status/100 == 3 || absent.Status == 401 || absent.Status == 403 || absent.Status == 429 {
				return fmt.Errorf("absent has the status %d, which does not say that nothing is there", absent.Status)
			}
			if absent.Status < 300 && absent.At == nil || absent.Is != "" && absent.At == nil {
				return fmt.Errorf("absent of status %d has no at: say where the answer says that nothing is there", absent.Status)
			}
		}
		if err := r.checkRequest("read", &r.Read.Request, "GET"); err != nil {
			return err
		}
		for _, name := range r.Read.Request.Names() {
			if strings.HasPrefix(name, "/") {
				return fmt.Errorf("read has {%s}, and nothing was read before", name)
			}
		}
	}
	for what, write := range map[string]*Write{"create": r.Create, "update": r.Update, "delete": r.Delete} {
		if write == nil {
			continue
		}
		if err := r.checkRequest(what, &write.Request, "POST", "PUT", "PATCH", "DELETE"); err != nil {
			return err
		}
		for _, fields := range []map[string]any{write.Set, write.Defaults} {
			for text := range fields {
				if parts, err := jsonvalue.ParsePointer(text); err != nil || len(parts) == 0 {
					return fmt.Errorf("%s has %q, which is no place in a body: write for example /overwrite", what, text)
				}
			}
		}
		if write.Send == "" {
			write.Send = SendWhole
			if write.Request.Method == "PATCH" {
				write.Send = SendOurs
			}
		}
		if write.Send != SendWhole && write.Send != SendOurs {
			return fmt.Errorf("%s has send: %s: write ours or whole", what, write.Send)
		}
		if len(write.Conflict) == 0 {
			write.Conflict = []int{409, 412}
		}
	}
	return nil
}

func (r *Resource) checkRequest(what string, request *Request, methods ...string) error {
	if !slices.Contains(methods, request.Method) {
		return fmt.Errorf("%s has the method %q: write %s", what, request.Method, strings.Join(methods, " or "))
	}
	for _, name := range request.Names() {
		if _, ok := r.Identity[name]; !ok && !strings.HasPrefix(name, "/") {
			return fmt.Errorf("%s has {%s}, which identity does not name", what, name)
		}
	}
	return nil
}

func (r *Resource) checkList() error {
	list := r.List
	if list == nil {
		return nil
	}
	if list.MostPages == 0 {
		list.MostPages = defaultPages
	}
	ways := 0
	for _, ok := range []bool{list.Page != nil, list.Cursor != nil, list.Link} {
		if ok {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("list has more than one of page, cursor and link: keep one")
	case list.MostPages < 1 || list.MostPages > 10_000:
		return fmt.Errorf("list has most_pages: %d: write 1 to 10000", list.MostPages)
	case list.Page != nil && list.Page.Parameter == "", list.Cursor != nil && (list.Cursor.Parameter == "" || len(list.Cursor.At.Parts) == 0):
		return errors.New("list has a page or cursor without a parameter: name it, as page: {parameter: page, first: 1}")
	}
	for name := range list.Identity {
		if _, ok := r.Identity[name]; !ok {
			return fmt.Errorf("list has an identity %q that the resource does not have", name)
		}
	}
	return r.checkRequest("list", &list.Request, "GET")
}
