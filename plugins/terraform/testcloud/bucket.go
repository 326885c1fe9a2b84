package main

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// bucket is a file NAME.json. Its region cannot be changed in place.
type bucket struct{ store store }

type bucketModel struct {
	Name   types.String `tfsdk:"name"`
	Region types.String `tfsdk:"region"`
	Env    types.String `tfsdk:"env"`
	Key    types.String `tfsdk:"key"`
	URL    types.String `tfsdk:"url"`
}

func (*bucket) Metadata(_ context.Context, _ resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = "testcloud_bucket"
}

func (*bucket) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	response.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"name":   schema.StringAttribute{Required: true, PlanModifiers: replaced},
		"region": schema.StringAttribute{Required: true, PlanModifiers: replaced},
		"env":    schema.StringAttribute{Optional: true},
		"key":    schema.StringAttribute{Optional: true, Sensitive: true},
		"url":    schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
	}}
}

func (b *bucket) Configure(_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if request.ProviderData != nil {
		b.store = request.ProviderData.(store)
	}
}

func (b *bucket) put(verb string, model *bucketModel) (diagnostics diag.Diagnostics) {
	model.URL = types.StringValue("cloud://" + model.Region.ValueString() + "/" + model.Name.ValueString())
	err := b.store.do(verb, model.Name.ValueString(), func(s store) error {
		return s.write(file{Name: model.Name.ValueString(), Region: model.Region.ValueString(), Env: model.Env.ValueStringPointer(), Key: model.Key.ValueStringPointer()})
	})
	switch {
	case errors.Is(err, errUnknown):
		model.URL = types.StringUnknown()
	case err != nil:
		diagnostics.AddError("The cloud refused to "+verb+" "+model.Name.ValueString(), err.Error())
	}
	return diagnostics
}

func (b *bucket) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var model bucketModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &model)...)
	response.Diagnostics.Append(b.put("create", &model)...)
	if !response.Diagnostics.HasError() {
		response.Diagnostics.Append(response.State.Set(ctx, &model)...)
	}
}

func (b *bucket) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var model bucketModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &model)...)
	response.Diagnostics.Append(b.put("update", &model)...)
	if !response.Diagnostics.HasError() {
		response.Diagnostics.Append(response.State.Set(ctx, &model)...)
	}
}

func (b *bucket) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var model bucketModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	found, err := b.store.read(model.Name.ValueString())
	switch {
	case err != nil:
		response.Diagnostics.AddError("The cloud cannot be read", err.Error())
	case found == nil:
		response.State.RemoveResource(ctx)
	default:
		model.Region, model.Env, model.Key = types.StringValue(found.Region), types.StringPointerValue(found.Env), types.StringPointerValue(found.Key)
		model.URL = types.StringValue("cloud://" + found.Region + "/" + found.Name)
		response.Diagnostics.Append(response.State.Set(ctx, &model)...)
	}
}

func (b *bucket) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var model bucketModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	err := b.store.do("delete", model.Name.ValueString(), func(s store) error { return s.remove(model.Name.ValueString()) })
	if err != nil {
		response.Diagnostics.AddError("The cloud refused to delete "+model.Name.ValueString(), err.Error())
	}
}

func (b *bucket) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("name"), request, response)
}
