import { settings } from '@tollway/payments/settings.ts'
import type { CommonConfig } from '../common-options.ts'
import { type HostConfig, port, settingsOf, switchedOn } from '../host-option.ts'
import { closeOnHostMs, type HostService, hostDrainDelay } from '../service.ts'
import { paymentsEnv } from './payments-env.ts'
import { paymentsWorkload } from './payments-workload.ts'

const options = {
  payments: switchedOn({
    flag: 'payments',
    help: 'run the payments service, with its database in the state folder',
  }),
  paymentsPort: port({
    flag: 'payments-port',
    fallback: 8090,
    help: 'the port of the API and the payment page',
  }),
  paymentsDebugPort: port({
    flag: 'payments-debug-port',
    fallback: 6073,
    help: 'the debug port of the payments service, on loopback',
  }),
  paymentsProvisionPort: port({
    flag: 'payments-provision-port',
    fallback: 8091,
    help: 'the port on which the operator provisions merchants, on loopback',
  }),
  paymentsEnv: settingsOf(paymentsEnv, {
    flag: 'payments-env',
    help: 'a setting of the payments service; repeat it for each setting',
  }),
}

type Config = HostConfig<typeof options> & CommonConfig

export const paymentsOnHost = {
  program: { main: new URL('../../../services/payments/main.ts', import.meta.url), options: [] },
  options,
  // The database is inside the process, so there is one process.
  processes: ({ payments }) => (payments ? 1 : 0),
  offBy: '--payments is not given',
  portFields: { http: 'paymentsPort', debug: 'paymentsDebugPort', provision: 'paymentsProvisionPort' },
  sharedPorts: ['paymentsPort'],
  ownPorts: ({ paymentsDebugPort, paymentsProvisionPort }) => ({
    debug: paymentsDebugPort,
    provision: paymentsProvisionPort,
  }),
  addresses: ({ paymentsPort }, host) => ({
    payments: `http://${host}:${paymentsPort}`,
    payPage: `http://${host}:${paymentsPort}/pay`,
  }),
  state: 'payments',
  sharesRedis: () => false,
  workload(config, { rateLimitAddress, stateDir, provisionTokenFile }) {
    const env = { ...hostDrainDelay, DRAIN_TIMEOUT: '5s', ...config.paymentsEnv }
    const workload = paymentsWorkload({
      replicas: 1,
      storage: { type: 'embedded', stateDir },
      port: config.paymentsPort,
      provisionPort: config.paymentsProvisionPort,
      provisionAccess: { type: 'token', tokenFile: provisionTokenFile },
      rateLimit: { address: rateLimitAddress, domain: settings.rateLimitDomain.fallback },
      logLevel: config.logLevel,
      stopGraceMs: paymentsEnv.drainMs(env) + closeOnHostMs,
      env,
    })
    // The ports for the operator are own ports of the process, on the loopback address.
    return { ...workload, ports: workload.ports.filter(({ callers }) => callers === undefined) }
  },
  // The first start creates the database.
  firstReadyMs: 60_000,
} as const satisfies HostService<Config>
