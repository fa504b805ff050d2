package schema

// position says where schemas are within a keyword's value.
type position uint8

const (
	noSchema position = iota
	oneSchema
	listOfSchemas
	oneOrList
	mapOfSchemas
)

// subschemas has the keywords whose values have schemas.
var subschemas = map[string]position{
	"$defs": mapOfSchemas, "definitions": mapOfSchemas,
	"properties": mapOfSchemas, "patternProperties": mapOfSchemas, "dependentSchemas": mapOfSchemas, "dependencies": mapOfSchemas,
	"additionalProperties": oneSchema, "propertyNames": oneSchema, "unevaluatedProperties": oneSchema,
	"items": oneOrList, "prefixItems": listOfSchemas, "additionalItems": oneSchema, "contains": oneSchema, "unevaluatedItems": oneSchema,
	"allOf": listOfSchemas, "anyOf": listOfSchemas, "oneOf": listOfSchemas,
	"not": oneSchema, "if": oneSchema, "then": oneSchema, "else": oneSchema,
}

// group is a set of keywords that are read together.
type group uint8

const (
	noGroup  group = iota
	ownGroup       // what this schema itself says of types, scalars, arrays and objects
	allOfGroup
	anyOfGroup
	oneOfGroup
	notGroup
	ifGroup
	refGroup
	dependentGroup
)

// groups has the keywords that constrain values. Any other keyword is an annotation, as the
// specification says: title, description, default, examples, readOnly, contentMediaType, and those
// that nobody knows. Properties come in the order of these groups in the schema's text.
var groups = map[string]group{
	"type": ownGroup, "nullable": ownGroup, "enum": ownGroup, "const": ownGroup,
	"minLength": ownGroup, "maxLength": ownGroup, "pattern": ownGroup, "format": ownGroup,
	"minimum": ownGroup, "maximum": ownGroup, "exclusiveMinimum": ownGroup, "exclusiveMaximum": ownGroup, "multipleOf": ownGroup,
	"items": ownGroup, "prefixItems": ownGroup, "additionalItems": ownGroup, "minItems": ownGroup, "maxItems": ownGroup,
	"uniqueItems": ownGroup, "contains": ownGroup, "minContains": ownGroup, "maxContains": ownGroup,
	"properties": ownGroup, "required": ownGroup, "additionalProperties": ownGroup, "patternProperties": ownGroup,
	"propertyNames": ownGroup, "minProperties": ownGroup, "maxProperties": ownGroup,
	"unevaluatedProperties": ownGroup, "unevaluatedItems": ownGroup,
	"allOf": allOfGroup, "anyOf": anyOfGroup, "oneOf": oneOfGroup, "not": notGroup, "if": ifGroup,
	"$ref": refGroup, "$dynamicRef": refGroup, "$recursiveRef": refGroup,
	"dependentRequired": dependentGroup, "dependentSchemas": dependentGroup, "dependencies": dependentGroup,
}
