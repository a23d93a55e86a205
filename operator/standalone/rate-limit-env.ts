import { readSettings, type Setting } from '@tollway/chassis/settings.ts'
import { settings } from '@tollway/ratelimit/settings.ts'

/**
 * What the operator decides for each process, and the field of its own configuration that stands for it.
 */
const decidedByTheOperator: readonly (readonly [Setting<unknown>, string?])[] = [
  [settings.grpcHost, 'host'],
  [settings.host, 'host'],
  [settings.grpcPort, 'grpcPort'],
  [settings.port, 'httpPort'],
  [settings.debugHost],
  [settings.debugPort, 'debugPort'],
  [settings.reusePort],
  [settings.usePullStats, 'metrics'],
  [settings.pullStatsAddress, 'metricsPort'],
  [settings.configType],
  [settings.xdsServer, 'feedPort'],
  [settings.xdsNodeId],
  [settings.xdsNodeMetadata],
  [settings.backendType, 'redisUrl'],
  [settings.redisSocketType, 'redisUrl'],
  [settings.redisUrl, 'redisUrl'],
]

/** Settings whose names hold a name that the user chose, and those of the traces' libraries. */
const openNames = /^(((USE_)?(AGENTSTATS|DOG_STATSD)_MOGRIFIER_\w+_(PATTERN|NAME|TAGS))|OTEL_\w+)$/

const table: readonly Setting<unknown>[] = Object.values(settings)

/**
 * Judges settings that a person gives to the rate limit processes, before any of them is started with them.
 * Each problem begins with the name of its setting.
 */
export function judgeRateLimitEnv(env: Readonly<Record<string, string>>): readonly string[] {
  const strange = Object.keys(env).flatMap(name => {
    const decided = decidedByTheOperator.find(([setting]) => namesOf(setting).includes(name))
    if (decided !== undefined) {
      const [, field] = decided
      return `${name}: the operator decides it${field === undefined ? '' : `; set ${field} instead`}`
    }
    const known = openNames.test(name) || table.some(setting => namesOf(setting).includes(name))
    return known ? [] : `${name}: there is no such setting`
  })
  // The files are the processes' to read.
  const read = readSettings(settings, env, () => '')
  const wrong = 'problems' in read ? read.problems.map(({ name, message }) => `${name}: ${message}`) : []
  return [...strange, ...wrong]
}

/** The settings that would send statistics elsewhere than to who asks for metrics, or nowhere. */
export function sinksBeside(env: Readonly<Record<string, string>>): readonly string[] {
  const { usePushStats, useAgentStats, disableStats } = settings
  return [usePushStats, useAgentStats, disableStats].flatMap(setting =>
    namesOf(setting).filter(name => env[name] && setting.kind.parse(env[name]) === true),
  )
}

/** Whether the value is one that no other user of the machine may read. */
export function isSecretSetting(name: string): boolean {
  return table.some(({ secret, name: own, aliases = [] }) => secret && [own, ...aliases].includes(name))
}

/** How long a process with these settings may take from SIGTERM to its end. */
export function drainMs(env: Readonly<Record<string, string>>): number {
  const { drainDelayMs, drainTimeoutMs } = settings
  return [drainDelayMs, drainTimeoutMs]
    .map(({ name, fallback, kind }) => kind.parse(env[name] || fallback) ?? 0)
    .reduce((sum, ms) => sum + ms, 0)
}

function namesOf({ name, aliases = [], secret }: Setting<unknown>): readonly string[] {
  const names = [name, ...aliases]
  return secret ? [...names, ...names.map(one => `${one}_FILE`)] : names
}
