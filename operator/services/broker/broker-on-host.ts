import { nodeOptions } from '@tollway/broker/node-options.ts'
import type { CommonConfig } from '../common-options.ts'
import { type HostConfig, maxReplicas, port, settingsOf, wholeNumber } from '../host-option.ts'
import { closeOnHostMs, type HostService, hostDrainDelay } from '../service.ts'
import { brokerEnv } from './broker-env.ts'
import { brokerWorkload } from './broker-workload.ts'

const options = {
  brokerReplicas: wholeNumber({
    flag: 'broker-replicas',
    fallback: 1,
    min: 0,
    max: maxReplicas,
    help: 'the number of brokers, 0 to run none; several share their streams in a Redis',
  }),
  brokerPort: port({ flag: 'broker-port', fallback: 8082, help: 'the port of animation streams by gRPC' }),
  brokerDebugPort: port({
    flag: 'broker-debug-port',
    fallback: 6072,
    help: 'the debug port of the first broker, on loopback',
  }),
  brokerEnv: settingsOf(brokerEnv, {
    flag: 'broker-env',
    help: 'a setting of the broker; repeat it for each setting',
  }),
}

type Config = HostConfig<typeof options> & CommonConfig

export const brokerOnHost = {
  program: { main: new URL('../../../services/broker/main.ts', import.meta.url), options: nodeOptions },
  options,
  processes: ({ brokerReplicas }) => brokerReplicas,
  offBy: '--broker-replicas is 0',
  portFields: { grpc: 'brokerPort', debug: 'brokerDebugPort' },
  sharedPorts: ['brokerPort'],
  ownPorts: ({ brokerDebugPort }, index) => ({
    debug: index === 0 ? brokerDebugPort : brokerDebugPort + 128 + index,
  }),
  addresses: ({ brokerPort }, host) => ({ broker: `${host}:${brokerPort}` }),
  state: 'streams',
  // A stream ends with the call of its producer, so one process gains nothing from Redis.
  sharesRedis: ({ brokerReplicas }) => brokerReplicas > 1,
  workload(config, { sharedState, feedAddress }) {
    // A consumer that waits for streams would delay the end for the whole default of DRAIN_TIMEOUT.
    const env = { ...hostDrainDelay, DRAIN_TIMEOUT: '2s', ...config.brokerEnv }
    return brokerWorkload({
      replicas: config.brokerReplicas,
      streamLog: sharedState,
      grpcPort: config.brokerPort,
      feedAddress,
      logLevel: config.logLevel,
      stopGraceMs: brokerEnv.drainMs(env) + closeOnHostMs,
      env,
    })
  },
  firstReadyMs: 30_000,
} as const satisfies HostService<Config>
