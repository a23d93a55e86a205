import { nodeEnvironment } from '@tollway/chassis/node-environment.ts'
import { nodeOptions } from '@tollway/ratelimit/node-options.ts'
import type { CommonConfig } from '../common-options.ts'
import { type HostConfig, maxReplicas, port, settingsOf, switchedOn, wholeNumber } from '../host-option.ts'
import { closeOnHostMs, type HostService, hostDrainDelay } from '../service.ts'
import { rateLimitEnv, sinksBeside } from './rate-limit-env.ts'
import { rateLimitWorkload } from './rate-limit-workload.ts'

const options = {
  replicas: wholeNumber({
    flag: 'replicas',
    fallback: 1,
    max: maxReplicas,
    help: 'the number of rate limit processes; several share their counters in a Redis',
  }),
  grpcPort: port({ flag: 'grpc-port', fallback: 8081, help: 'the port of rate limit calls by gRPC' }),
  httpPort: port({ flag: 'http-port', fallback: 8080, help: 'the port of rate limit calls by HTTP' }),
  debugPort: port({
    flag: 'debug-port',
    fallback: 6070,
    help: 'the debug port of the first process, on loopback',
  }),
  metrics: switchedOn({ flag: 'metrics', help: 'serve Prometheus metrics of each process, on loopback' }),
  metricsPort: port({
    flag: 'metrics-port',
    fallback: 9090,
    help: 'the port of the metrics of the first process',
  }),
  envoyTimeoutMs: wholeNumber({
    flag: 'envoy-timeout-ms',
    fallback: 20,
    min: 2,
    max: 3_600_000,
    help: "the timeout of Envoy's rate limit filter; with a Redis, BACKEND_DEADLINE is three quarters of it",
  }),
  rateLimitEnv: settingsOf(rateLimitEnv, {
    flag: 'env',
    help: 'a setting of the rate limit service; repeat it for each setting',
  }),
}

type Config = HostConfig<typeof options> & CommonConfig

export const rateLimitOnHost = {
  program: {
    main: new URL('../../../services/ratelimit/main.ts', import.meta.url),
    options: nodeOptions,
    env: nodeEnvironment,
  },
  options,
  processes: ({ replicas }) => replicas,
  portFields: { grpc: 'grpcPort', http: 'httpPort', debug: 'debugPort', metrics: 'metricsPort' },
  sharedPorts: ['grpcPort', 'httpPort'],
  ownPorts({ debugPort, metrics, metricsPort }, index) {
    const isFirst = index === 0
    return {
      debug: isFirst ? debugPort : debugPort + 30 + index,
      ...(metrics && { metrics: isFirst ? metricsPort : metricsPort + 10 + index }),
    }
  },
  addresses: ({ grpcPort, httpPort }, host) => ({
    grpc: `${host}:${grpcPort}`,
    http: `http://${host}:${httpPort}`,
  }),
  state: 'counters',
  // In a Redis of the user, counters survive a restart of the process.
  sharesRedis: ({ replicas, redisUrl }) => replicas > 1 || redisUrl !== '',
  problems: config =>
    config.metrics
      ? sinksBeside(config.rateLimitEnv).map(name => ({
          field: 'rateLimitEnv',
          problem: `${name}: is not allowed with`,
          with: 'metrics',
        }))
      : [],
  workload(config, { sharedState, feedAddress }) {
    const metrics = config.metrics ? { USE_PULLSTATS: 'true', DISABLE_STATS: 'false' } : {}
    const env = { ...hostDrainDelay, ...metrics, ...config.rateLimitEnv }
    return rateLimitWorkload({
      replicas: config.replicas,
      backend: sharedState,
      envoyTimeoutMs: config.envoyTimeoutMs,
      grpcPort: config.grpcPort,
      httpPort: config.httpPort,
      feedAddress,
      logLevel: config.logLevel,
      stopGraceMs: rateLimitEnv.drainMs(env) + closeOnHostMs,
      env,
    })
  },
  firstReadyMs: 30_000,
} as const satisfies HostService<Config>
