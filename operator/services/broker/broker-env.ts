import { settings } from '@tollway/broker/settings.ts'
import { createServiceEnv } from '../service-env.ts'

export const brokerEnv = createServiceEnv({
  settings,
  decided: [
    { setting: settings.grpcHost, machine: 'host' },
    { setting: settings.grpcPort, machine: 'brokerPort', cluster: 'broker.grpcPort' },
    { setting: settings.debugHost },
    { setting: settings.debugPort, machine: 'brokerDebugPort' },
    { setting: settings.adminHost },
    { setting: settings.adminPort, cluster: 'broker.admin.port' },
    { setting: settings.adminTokenFile, cluster: 'broker.admin.tokenSecret' },
    { setting: settings.metricsHost },
    { setting: settings.metricsPort, machine: 'brokerDebugPort', cluster: 'broker.metricsPort' },
    { setting: settings.reusePort },
    { setting: settings.routes },
    { setting: settings.xdsServer, machine: 'feedPort', cluster: 'feedPort' },
    { setting: settings.xdsNodeId },
    { setting: settings.xdsNodeMetadata },
    { setting: settings.streamLog, machine: 'redisUrl', cluster: 'broker.streamLog' },
    { setting: settings.redisUrl, machine: 'redisUrl', cluster: 'broker.streamLog' },
  ],
})
