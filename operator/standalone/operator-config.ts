import { type LogLevel, logLevels } from '@tollway/chassis/log.ts'
import { CORE_SCHEMA, loadAll, YAMLException } from 'js-yaml'
import { judgeRateLimitEnv, sinksBeside } from './rate-limit-env.ts'

/**
 * How the operator runs on this machine; each field is an option of `tollway run` and a field of its file.
 */
export interface OperatorConfig {
  readonly replicas: number
  /** Empty: memory for one replica, a Redis that is started along for more. */
  readonly redisUrl: string
  /** The address that takes rate limit calls. */
  readonly host: string
  readonly grpcPort: number
  readonly httpPort: number
  /** Of the first process, on the loopback address. `ownPorts` tells those of the others. */
  readonly debugPort: number
  /** Whether each process serves its statistics as Prometheus metrics, on the loopback address. */
  readonly metrics: boolean
  /** Of the first process. */
  readonly metricsPort: number
  readonly feedPort: number
  readonly operatorPort: number
  readonly logLevel: LogLevel
  /** Settings of the rate limit service, by their names; they hold over those that the operator sets. */
  readonly rateLimitEnv: Readonly<Record<string, string>>
}

export const defaultOperatorConfig: OperatorConfig = {
  replicas: 1,
  redisUrl: '',
  host: '127.0.0.1',
  grpcPort: 8081,
  httpPort: 8080,
  debugPort: 6070,
  metrics: false,
  metricsPort: 9090,
  feedPort: 18_000,
  operatorPort: 8000,
  logLevel: 'info',
  rateLimitEnv: {},
}

export const maxReplicas = 64
const maxPort = 65_535

/** The ports of the process of this index, which no other process shares. */
export function ownPorts(
  { debugPort, metrics, metricsPort }: Pick<OperatorConfig, 'debugPort' | 'metrics' | 'metricsPort'>,
  index: number,
): { readonly debug: number; readonly metrics?: number } {
  const isFirst = index === 0
  return {
    debug: isFirst ? debugPort : debugPort + 30 + index,
    ...(metrics && { metrics: isFirst ? metricsPort : metricsPort + 10 + index }),
  }
}

type Field = keyof OperatorConfig
const fields = Object.keys(defaultOperatorConfig) as readonly Field[]
const sharedPorts = ['grpcPort', 'httpPort', 'feedPort', 'operatorPort'] as const

/** Fields as someone wrote them. */
export type WrittenConfig = Readonly<Record<string, unknown>>

/**
 * What a configuration file says, not judged yet. The reason of an error quotes nothing of the file, for it
 * may hold a password.
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
  if (isMapping(found)) return { value: found }
  return { problem: `it must be a mapping of ${fields.join(', ')}` }
}

export type Judged = { readonly value: OperatorConfig } | { readonly problems: readonly string[] }

/**
 * Fields that are there, over the defaults; null counts as left out, and numbers may be written as text, as
 * on a command line. Every problem is told, and begins with the field as `spell` spells it for its writer.
 */
export function judgeOperatorConfig(found: WrittenConfig, spell = (field: string) => field): Judged {
  const problems = Object.keys(found)
    .filter(name => !fields.some(field => field === name))
    .map(name => `${spell(name)}: there is no such field; there are ${fields.join(', ')}`)
  const refuse = (field: Field, allowed: string) => {
    problems.push(`${spell(field)}: ${JSON.stringify(found[field])} is not ${allowed}`)
  }
  const whole = (field: Field & Numeric, max: number): number => {
    const given = found[field] ?? defaultOperatorConfig[field]
    const isWhole = typeof given !== 'object' && /^\d{1,9}$/.test(String(given))
    const number = isWhole ? Number(given) : 0
    if (number < 1 || number > max) refuse(field, `a whole number from 1 to ${max}`)
    return number
  }
  const text = (field: 'redisUrl' | 'host'): string => {
    const given = found[field] ?? defaultOperatorConfig[field]
    if (typeof given === 'string') return given
    problems.push(`${spell(field)}: is not a text`)
    return ''
  }
  const flag = (field: 'metrics'): boolean => {
    const given = found[field] ?? defaultOperatorConfig[field]
    if (!['true', 'false'].includes(String(given))) refuse(field, 'true or false')
    return String(given) === 'true'
  }
  const level = (): LogLevel => {
    const given = found['logLevel'] ?? defaultOperatorConfig.logLevel
    const known = logLevels.find(name => name === given)
    if (known === undefined) refuse('logLevel', `one of ${logLevels.join(', ')}`)
    return known ?? defaultOperatorConfig.logLevel
  }
  const value: OperatorConfig = {
    replicas: whole('replicas', maxReplicas),
    redisUrl: text('redisUrl'),
    host: text('host') || defaultOperatorConfig.host,
    grpcPort: whole('grpcPort', maxPort),
    httpPort: whole('httpPort', maxPort),
    debugPort: whole('debugPort', maxPort),
    metrics: flag('metrics'),
    metricsPort: whole('metricsPort', maxPort),
    feedPort: whole('feedPort', maxPort),
    operatorPort: whole('operatorPort', maxPort),
    logLevel: level(),
    rateLimitEnv: textsOf(found['rateLimitEnv'] ?? {}, spell, problems),
  }
  if (problems.length === 0) problems.push(...sharedTwice(value, spell), ...secondSinks(value, spell))
  return problems.length > 0 ? { problems } : { value }
}

type Numeric = { [K in Field]: OperatorConfig[K] extends number ? K : never }[Field]

function textsOf(
  found: unknown,
  spell: (field: string) => string,
  problems: string[],
): Record<string, string> {
  const field = spell('rateLimitEnv')
  if (!isMapping(found)) {
    problems.push(`${field}: must be a mapping of settings and their values`)
    return {}
  }
  const nested = Object.entries(found).filter(([, value]) => typeof value === 'object')
  problems.push(...nested.map(([name]) => `${field}: ${name}: is not a text, a number, true or false`))
  const texts = Object.fromEntries(Object.entries(found).map(([name, value]) => [name, String(value)]))
  if (nested.length === 0) problems.push(...judgeRateLimitEnv(texts).map(problem => `${field}: ${problem}`))
  return texts
}

/** Ports that two would listen on, those of further processes included. */
function sharedTwice(config: OperatorConfig, spell: (field: string) => string): readonly string[] {
  const owners = new Map<number, string>()
  const problems: string[] = []
  const claim = (field: Field, port: number, owner: string) => {
    const before = owners.get(port)
    owners.set(port, owner)
    if (port > maxPort)
      problems.push(`${spell(field)}: ${owner} would have the port ${port}, beyond ${maxPort}`)
    else if (before !== undefined) problems.push(`${spell(field)}: ${port} is the port of ${before} already`)
  }
  for (const field of sharedPorts) claim(field, config[field], spell(field))
  for (let index = 0; index < config.replicas; index++) {
    const { debug, metrics } = ownPorts(config, index)
    claim('debugPort', debug, `debug of ratelimit-${index}`)
    if (metrics !== undefined) claim('metricsPort', metrics, `metrics of ratelimit-${index}`)
  }
  return problems
}

/** A process sends its statistics to one place only. */
function secondSinks({ metrics, rateLimitEnv }: OperatorConfig, spell: (field: string) => string) {
  if (!metrics) return []
  return sinksBeside(rateLimitEnv).map(
    name => `${spell('rateLimitEnv')}: ${name}: is not allowed with ${spell('metrics')}`,
  )
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
