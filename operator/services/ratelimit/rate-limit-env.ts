import { settings } from '@tollway/ratelimit/settings.ts'
import { createServiceEnv, namesOf } from '../service-env.ts'

export const rateLimitEnv = createServiceEnv({
  settings,
  decided: [
    { setting: settings.grpcHost, machine: 'host' },
    { setting: settings.host, machine: 'host' },
    { setting: settings.grpcPort, machine: 'grpcPort', cluster: 'rateLimit.grpcPort' },
    { setting: settings.port, machine: 'httpPort', cluster: 'rateLimit.httpPort' },
    { setting: settings.debugHost },
    { setting: settings.debugPort, machine: 'debugPort' },
    { setting: settings.reusePort },
    { setting: settings.usePullStats, machine: 'metrics' },
    { setting: settings.pullStatsAddress, machine: 'metricsPort', cluster: 'rateLimit.metricsPort' },
    { setting: settings.configType },
    { setting: settings.xdsServer, machine: 'feedPort', cluster: 'feedPort' },
    { setting: settings.xdsNodeId },
    { setting: settings.xdsNodeMetadata },
    { setting: settings.backendType, machine: 'redisUrl', cluster: 'rateLimit.backend' },
    { setting: settings.redisSocketType, machine: 'redisUrl', cluster: 'rateLimit.backend' },
    { setting: settings.redisUrl, machine: 'redisUrl', cluster: 'rateLimit.backend' },
  ],
  openNames: /^(USE_)?(AGENTSTATS|DOG_STATSD)_MOGRIFIER_\w+_(PATTERN|NAME|TAGS)$/,
})

/** Returns the settings that would send statistics away from the metrics port, or disable them. */
export function sinksBeside(env: Readonly<Record<string, string>>): readonly string[] {
  const { usePushStats, useAgentStats, disableStats } = settings
  return [usePushStats, useAgentStats, disableStats].flatMap(setting =>
    namesOf(setting).filter(name => env[name] && setting.kind.parse(env[name]) === true),
  )
}
