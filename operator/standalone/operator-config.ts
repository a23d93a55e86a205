import { type LogLevel, logLevels } from '@tollway/chassis/log.ts'
import { CORE_SCHEMA, load } from 'js-yaml'

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
  /** Of the first process; the i-th of the others has this and 30 + i more, on the loopback address. */
  readonly debugPort: number
  /** Of the first process; the i-th of the others has this and 10 + i more, on the loopback address. */
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
  metricsPort: 9090,
  feedPort: 18_000,
  operatorPort: 8000,
  logLevel: 'info',
  rateLimitEnv: {},
}

export const maxReplicas = 64
const ports = ['grpcPort', 'httpPort', 'debugPort', 'metricsPort', 'feedPort', 'operatorPort'] as const
const words = ['redisUrl', 'host'] as const

/** What the file says, over the defaults. Every problem is told with its field. */
export function parseOperatorConfig(text: string): Judged {
  let found: unknown
  try {
    found = load(text, { schema: CORE_SCHEMA }) ?? {}
  } catch (error) {
    return { problems: [(error as Error).message] }
  }
  if (typeof found !== 'object' || found === null || Array.isArray(found)) {
    return { problems: [`must be a mapping of ${fields.join(', ')}`] }
  }
  return judgeOperatorConfig({ ...found })
}

export type Judged = { readonly value: OperatorConfig } | { readonly problems: readonly string[] }

const fields = Object.keys(defaultOperatorConfig)

/** Fields that are there, over the defaults; numbers may be written as text, as on a command line. */
export function judgeOperatorConfig(found: Readonly<Record<string, unknown>>): Judged {
  const problems = Object.keys(found)
    .filter(name => !fields.includes(name))
    .map(name => `${name}: is not a field; there are ${fields.join(', ')}`)
  const given: Record<string, unknown> = { ...defaultOperatorConfig, ...found }
  const wrong = (name: string, allowed: string) => {
    problems.push(`${name}: ${JSON.stringify(given[name])} is not ${allowed}`)
  }
  const whole = (name: string, max: number) => {
    const number = Number(given[name])
    if (!/^\d+$/.test(`${given[name]}`) || number < 1 || number > max)
      wrong(name, `a whole number from 1 to ${max}`)
    given[name] = number
  }
  whole('replicas', maxReplicas)
  const owners = new Map<unknown, string>()
  for (const name of ports) {
    whole(name, 65_535)
    const owner = owners.get(given[name])
    if (owner !== undefined) wrong(name, `free: it is also ${owner}`)
    owners.set(given[name], name)
  }
  for (const name of words) if (typeof given[name] !== 'string') wrong(name, 'a text')
  if (!logLevels.some(level => level === given['logLevel']))
    wrong('logLevel', `one of ${logLevels.join(', ')}`)
  given['rateLimitEnv'] = texts(found['rateLimitEnv'], problems)
  return problems.length > 0 ? { problems } : { value: given as unknown as OperatorConfig }
}

function texts(found: unknown, problems: string[]): Record<string, string> {
  if (found === undefined) return {}
  if (typeof found !== 'object' || found === null || Array.isArray(found)) {
    problems.push('rateLimitEnv: must be a mapping of settings and their values')
    return {}
  }
  return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, String(value)]))
}
