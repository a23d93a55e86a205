import { settings } from '@tollway/payments/settings.ts'
import { createServiceEnv } from '../service-env.ts'

export const paymentsEnv = createServiceEnv({
  settings,
  decided: [
    { setting: settings.host, machine: 'host' },
    { setting: settings.port, machine: 'paymentsPort', cluster: 'payments.port' },
    { setting: settings.debugHost },
    { setting: settings.debugPort, machine: 'paymentsDebugPort', cluster: 'payments.metricsPort' },
    { setting: settings.provisionHost },
    { setting: settings.provisionPort, machine: 'paymentsProvisionPort', cluster: 'payments.provisionPort' },
    { setting: settings.provisionToken },
    { setting: settings.provisionTlsCert },
    { setting: settings.provisionTlsKey },
    { setting: settings.provisionTlsClientCa },
    { setting: settings.provisionTlsClientName },
    { setting: settings.stateDir },
    { setting: settings.databaseUrl, cluster: 'payments.database' },
  ],
})
