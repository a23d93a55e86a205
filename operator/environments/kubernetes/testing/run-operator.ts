import { parseArgs } from 'node:util'
import { createLog } from '@tollway/chassis/log/log.ts'
import { accessFromEnvironment } from '../api/access.ts'
import { readClusterConfig } from '../read-cluster-config.ts'
import { startInCluster } from '../start.ts'

/**
 * Runs an operator that listens on a single address. `tollway operator` listens on all addresses, because
 * each pod has its own. Several operators on one machine use the same ports, so each needs another address.
 */
const { values } = parseArgs({
  options: {
    config: { type: 'string', default: '' },
    name: { type: 'string', default: '' },
    namespace: { type: 'string', default: '' },
    ip: { type: 'string', default: '' },
  },
})
const { config, name, namespace, ip } = values
const read = readClusterConfig(config)
if (!('value' in read)) throw new Error(read.problems.join('\n'))
const log = createLog({ level: 'info', format: 'text' })
const pod = { name, namespace, ip, host: ip, revision: '' }
await startInCluster({ config: read.value, pod, log, access: await accessFromEnvironment(process.env) })
