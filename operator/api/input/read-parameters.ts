import type { Schema } from '@tollway/crds/schema.ts'
import { validate } from '@tollway/crds/validation/validate.ts'
import { invalid } from '../api-error.ts'
import type { Endpoint, Parameter } from '../endpoints.ts'
import { readQuery } from './read-query.ts'

/** The parameters of a call by their names, validated and with their defaults. */
export type Parameters = Readonly<Record<string, unknown>>

/**
 * Reads the parameters of a call.
 *
 * @param inPath the parameters in the path, decoded
 * @throws ApiError with 400 that names each parameter that is unknown, missing, repeated or invalid
 */
export function readParameters(
  { parameters }: Pick<Endpoint, 'parameters'>,
  inPath: Readonly<Record<string, string>>,
  query: string,
): Parameters {
  const given: Record<string, unknown> = { ...inPath }
  for (const [name, values] of readQuery(query)) {
    const known = parameters.find(parameter => parameter.in === 'query' && parameter.name === name)
    if (known?.isList) given[name] = values
    else if (values.length > 1)
      throw invalid([{ path: name, message: `is given ${values.length} times; expected one value` }])
    else given[name] = known === undefined ? values[0] : parse(known, values[0] ?? '')
  }
  const checked = validate(schemaOf(parameters), given)
  if ('problems' in checked) throw invalid(checked.problems)
  return checked.value as Parameters
}

function parse({ schema }: Parameter, text: string): unknown {
  return (schema as Schema).type === 'integer' && /^-?\d{1,15}$/.test(text) ? Number(text) : text
}

function schemaOf(parameters: readonly Parameter[]): Schema {
  return {
    type: 'object',
    properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schema as Schema])),
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
  }
}
