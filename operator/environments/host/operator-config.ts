import { type LogLevel, logLevels } from '@tollway/chassis/log/log.ts'
import { CORE_SCHEMA, loadAll, YAMLException } from 'js-yaml'
import type { ServiceName } from '../../ir.ts'
import { brokerEnv } from '../../services/broker/broker-env.ts'
import { paymentsEnv } from '../../services/payments/payments-env.ts'
import { rateLimitEnv, sinksBeside } from '../../services/ratelimit/rate-limit-env.ts'

/**
 * How the operator runs on this machine; each field is an option of `tollway run` and a field of its file.
 */
export interface OperatorConfig {
  /** Of the rate limit service. */
  readonly replicas: number
  /** Empty: memory for one replica of a service, a Redis that is started along for more. */
  readonly redisUrl: string
  /** The address that takes calls. */
  readonly host: string
  readonly grpcPort: number
  readonly httpPort: number
  /** The port of the first process, on the loopback address. `ownPorts` returns those of the others. */
  readonly debugPort: number
  /** Whether each process serves its statistics as Prometheus metrics, on the loopback address. */
  readonly metrics: boolean
  /** Of the first process. */
  readonly metricsPort: number
  readonly feedPort: number
  readonly operatorPort: number
  /** The `timeout` of Envoy's rate limit filter: BACKEND_DEADLINE is three quarters of it. */
  readonly envoyTimeoutMs: number
  readonly logLevel: LogLevel
  /** Settings of the rate limit service, by their names; they hold over those that the operator sets. */
  readonly rateLimitEnv: Readonly<Record<string, string>>
  /** Of the broker of animation streams; 0 where none shall run. */
  readonly brokerReplicas: number
  readonly brokerPort: number
  /** Of the first broker, on the loopback address. */
  readonly brokerDebugPort: number
  /** Settings of the broker, likewise. */
  readonly brokerEnv: Readonly<Record<string, string>>
  /** Whether the payments service runs, in one process with a database of its own in the state folder. */
  readonly payments: boolean
  /** Of its API and the payment page. */
  readonly paymentsPort: number
  /** Of its pages, on the loopback address. */
  readonly paymentsDebugPort: number
  /** Through which the operator provisions merchants, on the loopback address. */
  readonly paymentsProvisionPort: number
  /** Settings of the payments service, likewise. */
  readonly paymentsEnv: Readonly<Record<string, string>>
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
  envoyTimeoutMs: 20,
  logLevel: 'info',
  rateLimitEnv: {},
  brokerReplicas: 1,
  brokerPort: 8082,
  brokerDebugPort: 6072,
  brokerEnv: {},
  payments: false,
  paymentsPort: 8090,
  paymentsDebugPort: 6073,
  paymentsProvisionPort: 8091,
  paymentsEnv: {},
}

export const maxReplicas = 64
const maxPort = 65_535
const maxEnvoyTimeoutMs = 3_600_000

type PortFields = Pick<
  OperatorConfig,
  'debugPort' | 'metrics' | 'metricsPort' | 'brokerDebugPort' | 'paymentsDebugPort' | 'paymentsProvisionPort'
>

/** The ports of one process alone. */
export interface OwnPorts {
  readonly debug: number
  /** Left out where there are no metrics, or where the port for debugging has them. */
  readonly metrics?: number
  /** Only the operator calls there. */
  readonly provision?: number
}

/**
 * Those of the process of this index of a service. Those of the first are the ones that people know; the
 * others' are further up, out of the way of everything else and of each other.
 */
export function ownPorts(config: PortFields, service: ServiceName, index: number): OwnPorts {
  const { debugPort, metrics, metricsPort, brokerDebugPort } = config
  const isFirst = index === 0
  if (service === 'payments')
    return { debug: config.paymentsDebugPort, provision: config.paymentsProvisionPort }
  if (service === 'broker') return { debug: isFirst ? brokerDebugPort : brokerDebugPort + 128 + index }
  return {
    debug: isFirst ? debugPort : debugPort + 30 + index,
    ...(metrics && { metrics: isFirst ? metricsPort : metricsPort + 10 + index }),
  }
}

type Field = keyof OperatorConfig
const fields = Object.keys(defaultOperatorConfig) as readonly Field[]
const envFields = { rateLimitEnv, brokerEnv, paymentsEnv } as const
type EnvField = keyof typeof envFields

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
 * Returns the given fields over the defaults. Null counts as left out, and numbers may be text, as on a
 * command line. Every problem is reported, and begins with the field as `spell` spells it.
 */
export function judgeOperatorConfig(found: WrittenConfig, spell = (field: string) => field): Judged {
  const problems = Object.keys(found)
    .filter(name => !fields.some(field => field === name))
    .map(name => `${spell(name)}: there is no such field; there are ${fields.join(', ')}`)
  const refuse = (field: Field, allowed: string) => {
    problems.push(`${spell(field)}: ${JSON.stringify(found[field])} is not ${allowed}`)
  }
  const whole = (field: Field & Numeric, max: number, min = 1): number => {
    const given = found[field] ?? defaultOperatorConfig[field]
    const isWhole = typeof given !== 'object' && /^\d{1,9}$/.test(String(given))
    const number = isWhole ? Number(given) : -1
    if (number < min || number > max) refuse(field, `a whole number from ${min} to ${max}`)
    return number
  }
  const text = (field: 'redisUrl' | 'host'): string => {
    const given = found[field] ?? defaultOperatorConfig[field]
    if (typeof given === 'string') return given
    problems.push(`${spell(field)}: is not a text`)
    return ''
  }
  const flag = (field: 'metrics' | 'payments'): boolean => {
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
  const texts = (field: EnvField) => {
    const read = readSettingsOf(field, found[field] ?? {})
    problems.push(...read.problems.map(problem => `${spell(field)}: ${problem}`))
    return read.texts
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
    envoyTimeoutMs: whole('envoyTimeoutMs', maxEnvoyTimeoutMs, 2),
    logLevel: level(),
    rateLimitEnv: texts('rateLimitEnv'),
    brokerReplicas: whole('brokerReplicas', maxReplicas, 0),
    brokerPort: whole('brokerPort', maxPort),
    brokerDebugPort: whole('brokerDebugPort', maxPort),
    brokerEnv: texts('brokerEnv'),
    payments: flag('payments'),
    paymentsPort: whole('paymentsPort', maxPort),
    paymentsDebugPort: whole('paymentsDebugPort', maxPort),
    paymentsProvisionPort: whole('paymentsProvisionPort', maxPort),
    paymentsEnv: texts('paymentsEnv'),
  }
  if (problems.length === 0) problems.push(...sharedTwice(value, spell), ...secondSinks(value, spell))
  return problems.length > 0 ? { problems } : { value }
}

type Numeric = { [K in Field]: OperatorConfig[K] extends number ? K : never }[Field]

/** Reads the settings of a service, and their problems. */
function readSettingsOf(field: EnvField, found: unknown) {
  if (!isMapping(found)) return { texts: {}, problems: ['must be a mapping of settings and their values'] }
  const nested = Object.entries(found).filter(([, value]) => typeof value === 'object')
  const texts = Object.fromEntries(Object.entries(found).map(([name, value]) => [name, String(value)]))
  const problems =
    nested.length > 0
      ? nested.map(([name]) => `${name}: is not a text, a number, true or false`)
      : envFields[field].judge(texts, 'machine')
  return { texts, problems }
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
  const { replicas, brokerReplicas } = config
  const shared = ['grpcPort', 'httpPort', 'feedPort', 'operatorPort'] as const
  for (const field of shared) claim(field, config[field], spell(field))
  if (brokerReplicas > 0) claim('brokerPort', config.brokerPort, spell('brokerPort'))
  for (let index = 0; index < replicas; index++) {
    const { debug, metrics } = ownPorts(config, 'ratelimit', index)
    claim('debugPort', debug, `debug of ratelimit-${index}`)
    if (metrics !== undefined) claim('metricsPort', metrics, `metrics of ratelimit-${index}`)
  }
  for (let index = 0; index < brokerReplicas; index++) {
    claim('brokerDebugPort', ownPorts(config, 'broker', index).debug, `debug of broker-${index}`)
  }
  if (config.payments) {
    claim('paymentsPort', config.paymentsPort, spell('paymentsPort'))
    claim('paymentsDebugPort', config.paymentsDebugPort, spell('paymentsDebugPort'))
    claim('paymentsProvisionPort', config.paymentsProvisionPort, spell('paymentsProvisionPort'))
  }
  return problems
}

/** A process sends its statistics to one place only. */
function secondSinks({ metrics, rateLimitEnv: given }: OperatorConfig, spell: (field: string) => string) {
  if (!metrics) return []
  return sinksBeside(given).map(
    name => `${spell('rateLimitEnv')}: ${name}: is not allowed with ${spell('metrics')}`,
  )
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
