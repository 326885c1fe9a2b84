package web

import (
	"context"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

// act is something that a person has the server do, by a form that shows first what will
// come of it. Nothing acts when it is only looked at.
type act struct {
	// call is the method of the API that it calls: who may not call it is told so in place
	// of the form.
	call string
	// subject is the key of the address that names what it is about, which is also the kind of
	// that one's page; empty: the partition.
	subject string
	// title goes before the subject's name. Button says what the form does, and effect what
	// comes of it.
	title, button, effect string
	// lasts is how long it lasts without a period; empty: it has none.
	lasts string
	// isGlobal: it is about no one partition, and its address names none.
	isGlobal bool
	// forgets: its partition is not there any more once it is done.
	forgets bool
	// loosens: it lets something happen that was kept from happening.
	loosens bool
	// show adds to the form what the act is about now; nil: nothing.
	show func(ctx context.Context, r *reader, at address, form *actForm) error
	// do carries it out, and returns what was done as a sentence.
	do func(ctx context.Context, r *reader, request actRequest) (message string, err error)
	// undo is the act that takes it back; empty: there is none.
	undo string
	// about is the subject as a title has it, and back leads to it; nil: by subject.
	about func(at address) string
	back  func(at address) crumb
}

// actRequest is a form that was sent.
type actRequest struct {
	partition, subject, reason string
	period                     *durationpb.Duration
	// query is of the address, and values are all that was entered.
	query, values url.Values
}

// actForm is what the page of an act shows.
type actForm struct {
	// parts say what the act is about, and what will come of it.
	parts []part
	// Bound are values that were shown and that the act is bound to: the server refuses it
	// where they are others by then.
	Bound []field
	// Checks are ticked at first; those that a person leaves are sent.
	Checks []field
	// Choices are those that a person makes.
	Choices []choice
	// Texts are to be entered, by name.
	Texts []field
	// Asks: a part asks first for what the act needs, and leads back here.
	Asks bool
	// Refused says why there is nothing to do; nil: there is.
	Refused error
}

// field is a value of a form.
type field struct {
	Name, Label, Value string
	// Optional: it may be left empty.
	Optional bool
}

type choice struct {
	Name, Label string
	Options     []option
}

// formView is what the template of a form needs.
type formView struct {
	*actForm
	Effect, Button, Lasts string
	Loosens               bool
	// Token and Once are what the form must hold.
	Action, Token, Once, Reason string
	Periods                     []option
}

// periods can be chosen for what ends by itself.
var periods = []option{{"30m", "30 minutes", false}, {"1h", "1 hour", false}, {"2h", "2 hours", false}, {"8h", "8 hours", false}, {"24h", "1 day", false}, {"72h", "3 days", false}, {"168h", "7 days", false}}

// actLink leads to the form of an act on something.
func actLink(partition, name, subject string) string {
	at := address{kind: "act", partition: partition, name: name, query: url.Values{}}
	if key := acts[name].subject; key != "" {
		at.query.Set(key, subject)
	}
	return at.String()
}

// actButton leads to the form of an act.
type actButton struct {
	Text, Link string
	Loosens    bool
}

func newActButton(partition, name, subject string) actButton {
	return actButton{Text: acts[name].button, Link: actLink(partition, name, subject), Loosens: acts[name].loosens}
}

// act is the act that an address names, and what it is about.
func (a address) act() (act, string, error) {
	action, ok := acts[a.name]
	if !ok || action.isGlobal != (a.partition == "") {
		return act{}, "", fault.New(fault.NotFound, "there is no act %.80q", a.name).WithHint("the page of what it is about has those that there are")
	}
	subject := a.query.Get(action.subject)
	if action.subject != "" && subject == "" {
		return act{}, "", fault.New(fault.Invalid, "the address does not say what to %s", a.name).WithHint("go by the page of what it is about")
	}
	return action, subject, nil
}

// showAct is the form of an act, with what will come of it.
func showAct(ctx context.Context, r *reader, at address) (page, error) {
	return actPage(ctx, r, at, formInput{once: newOnce()}, nil)
}

// newActPage is the page of an act, in its partition if it is of one.
func newActPage(ctx context.Context, r *reader, at address, title string) (pageData page, err error) {
	if pageData.Title = title; at.partition != "" {
		pageData, err = partitionPage(ctx, r, at, title)
	}
	pageData.Fixed, pageData.Form = true, true
	return pageData, err
}

// formInput is what a form holds besides what is read for it.
type formInput struct{ once, reason, period string }

// actPage is a form, which had been sent and was refused where there is a problem.
func actPage(ctx context.Context, r *reader, at address, input formInput, refusal error) (page, error) {
	action, subject, err := at.act()
	if err != nil {
		return page{}, err
	}
	pageData, err := newActPage(ctx, r, at, strings.TrimSpace(action.title+" "+shownSubject(action, subject, at)))
	if err != nil {
		return page{}, err
	}
	pageData.Back = backTo(action, at, subject)
	if refusal != nil {
		pageData.Parts = append(pageData.Parts, problem("refused", refusal))
	}
	allowed, err := r.Auth.Can(ctx, &apipb.CanRequest{Partition: at.partition, Call: strings.TrimPrefix(action.call, "/")})
	if err != nil {
		return page{}, err
	}
	form := &actForm{}
	if action.show != nil {
		if err := action.show(ctx, r, at, form); err != nil {
			return page{}, err
		}
	}
	if !allowed.Allowed {
		form.Refused = fault.New(fault.Denied, "you may not do this: %s", allowed.Reason)
	}
	view := formView{
		actForm: form, Effect: action.effect, Button: action.button, Lasts: action.lasts, Loosens: action.loosens,
		Action: at.String(), Token: r.viewer.FormToken, Once: input.once, Reason: input.reason,
	}
	for _, period := range periods {
		period.Selected = period.Value == input.period
		view.Periods = append(view.Periods, period)
	}
	pageData.Parts = append(pageData.Parts, makePart("effect", "act-effect", view))
	pageData.Parts = append(pageData.Parts, form.parts...)
	switch {
	case form.Refused != nil:
		pageData.Parts = append(pageData.Parts, problem("act", form.Refused))
	case !form.Asks:
		pageData.Parts = append(pageData.Parts, makePart("act", "act-form", view))
	}
	return pageData, nil
}

// shownSubject is the subject as a title has it.
func shownSubject(action act, subject string, at address) string {
	if action.about != nil {
		return action.about(at)
	}
	switch action.subject {
	case "":
		return at.partition
	case "candidate":
		return short(subject)
	}
	return subject
}

// backTo leads from an act to what it is about.
func backTo(action act, at address, subject string) crumb {
	if action.back != nil {
		return action.back(at)
	}
	switch action.subject {
	case "":
		return crumb{"partition " + at.partition, address{kind: "partition", partition: at.partition}.String()}
	case "candidate":
		return crumb{"candidate " + short(subject), link(at.partition, action.subject, subject)}
	case "orphan":
		return crumb{"orphans of " + at.partition, link(at.partition, "orphans", "")}
	}
	return crumb{action.subject + " " + subject, link(at.partition, action.subject, subject)}
}

// readRequest reads a form that was sent.
func readRequest(at address, subject string, action act, values url.Values) (actRequest, error) {
	request := actRequest{
		partition: at.partition, subject: subject, reason: strings.TrimSpace(values.Get("reason")), query: at.query, values: values,
	}
	if request.reason == "" {
		return request, fault.New(fault.Invalid, "a reason is needed, for whoever finds it").WithHint("say why, in the field of that name")
	}
	if text := values.Get("for"); text != "" && action.lasts != "" {
		period, err := time.ParseDuration(text)
		if err != nil || period <= 0 {
			return request, fault.New(fault.Invalid, "%.40q is no period", text).WithHint("choose one of the list, or write one such as 90m")
		}
		request.period = durationpb.New(period)
	}
	return request, nil
}

// doneView is what was done.
type doneView struct {
	Text, Back, BackText, Undo, UndoText string
}

// donePage tells what an act has done, and how it is taken back.
func donePage(ctx context.Context, r *reader, at address, action act, subject, message string) (page, error) {
	shown := at
	if action.forgets {
		shown.partition = ""
	}
	pageData, err := newActPage(ctx, r, shown, "Done")
	if err != nil {
		return page{}, err
	}
	pageData.Back = backTo(action, at, subject)
	view := doneView{Text: message, Back: pageData.Back.Link, BackText: pageData.Back.Text}
	if action.undo != "" {
		back := at // The same, under another name.
		back.name = action.undo
		view.Undo, view.UndoText = back.String(), acts[action.undo].button
	}
	pageData.Parts = []part{makePart("done", "act-done", view)}
	return pageData, nil
}
