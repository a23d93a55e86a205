import { isObject } from '@tollway/chassis/is-object.ts'
import { CORE_SCHEMA, loadAll, YAMLException } from 'js-yaml'
import { type ServiceName, serviceNames } from '../../model.ts'
import { type HostConfig, maxPort, portOption } from '../../workloads/host-option.ts'
import { serviceOptions, services } from '../../workloads/registry.ts'

/** The options of `tollway run`, by the fields of its configuration file. */
export const options = {
  ...serviceOptions,
  feedPort: portOption({ flag: 'feed-port', fallback: 18_000, help: 'the port of the feed, on loopback' }),
  operatorPort: portOption({
    flag: 'operator-port',
    fallback: 8000,
    help: 'the port of the console, the API and health, on loopback',
  }),
}

export type OperatorConfig = HostConfig<typeof options>

type Field = keyof OperatorConfig
const fields = Object.keys(options) as readonly Field[]

/** Returns the command-line flag of a field: `--grpc-port`. */
export function toFlag(field: string): string {
  return `--${options[field as Field].flag}`
}

/** A configuration before its fields are validated. */
export type WrittenConfig = Readonly<Record<string, unknown>>

/**
 * Parses a configuration file without validating its fields. A problem does not quote the file, which may
 * contain a password.
 */
export function parseOperatorConfig(
  text: string,
): { readonly value: WrittenConfig } | { readonly problem: string } {
  let found: unknown
  try {
    const [first, ...others] = loadAll(text, { schema: CORE_SCHEMA })
    if (others.length > 0) return { problem: `it must be one document, not ${others.length + 1}` }
    found = first ?? {}
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const line = error.mark === undefined ? '' : `line ${error.mark.line + 1}: `
    return { problem: `${line}${error.reason}` }
  }
  if (isObject(found)) return { value: found }
  return { problem: `it must be a mapping of ${fields.join(', ')}` }
}

export type ValidatedConfig = { readonly value: OperatorConfig } | { readonly problems: readonly string[] }

/**
 * Validates the given fields and adds the defaults. Null counts as a missing field, and numbers may be text,
 * as on a command line. Returns all problems; each starts with the field's name as `spell` returns it.
 */
export function validateOperatorConfig(
  found: WrittenConfig,
  spell = (field: string) => field,
): ValidatedConfig {
  const problems = Object.keys(found)
    .filter(name => !fields.some(field => field === name))
    .map(name => `${spell(name)}: there is no such field; there are ${fields.join(', ')}`)
  const values: Partial<Record<Field, unknown>> = {}
  for (const field of fields) {
    const given = found[field] ?? undefined
    const read = given === undefined ? { value: options[field].fallback } : options[field].read(given)
    if ('value' in read) values[field] = read.value
    else problems.push(...read.problems.map(problem => `${spell(field)}: ${problem}`))
  }
  if (problems.length > 0) return { problems }
  const value = values as OperatorConfig
  const conflicts = [...findPortConflicts(value, spell), ...findExclusions(value, spell)]
  return conflicts.length > 0 ? { problems: conflicts } : { value }
}

/** Returns a problem for each port that is used twice or out of range. */
function findPortConflicts(config: OperatorConfig, spell: (field: string) => string): readonly string[] {
  const owners = new Map<number, string>()
  const problems: string[] = []
  for (const { field, port, owner = spell(field) } of listPorts(config)) {
    const before = owners.get(port)
    owners.set(port, owner)
    if (port > maxPort)
      problems.push(`${spell(field)}: ${owner} would have the port ${port}, beyond ${maxPort}`)
    else if (before !== undefined) problems.push(`${spell(field)}: ${port} is the port of ${before} already`)
  }
  return problems
}

interface PortUse {
  readonly field: Field
  readonly port: number
  /** The only process that uses the port, for messages; undefined if all processes of a service share it. */
  readonly owner?: string
}

function listPorts(config: OperatorConfig): readonly PortUse[] {
  const ofOperator = (['feedPort', 'operatorPort'] as const).map(field => ({ field, port: config[field] }))
  return [...ofOperator, ...serviceNames.flatMap(name => listServicePorts(config, name))]
}

function listServicePorts(config: OperatorConfig, name: ServiceName): readonly PortUse[] {
  const { onHost } = services[name]
  const count = onHost.processes(config)
  if (count === 0) return []
  const own = Array.from({ length: count }, (_, index) => Object.entries(onHost.ownPorts(config, index)))
  return [
    ...onHost.sharedPorts.map(field => ({ field: field as Field, port: config[field as Field] as number })),
    ...own.flatMap((ports, index) =>
      ports.map(([portName, port]) => ({
        field: onHost.portFields[portName] as Field,
        port,
        owner: `${portName} of ${name}-${index}`,
      })),
    ),
  ]
}

function findExclusions(config: OperatorConfig, spell: (field: string) => string): readonly string[] {
  return Object.values(services)
    .flatMap(({ onHost }) => onHost.problems?.(config) ?? [])
    .map(({ field, problem, with: other }) => `${spell(field)}: ${problem} ${spell(other)}`)
}
