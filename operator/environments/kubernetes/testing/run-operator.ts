import { parseArgs } from 'node:util'
import { createLog } from '@tollway/chassis/log/log.ts'
import { accessFromEnvironment } from '../api/access.ts'
import { readClusterConfig } from '../read-cluster-config.ts'
import { startInCluster } from '../start.ts'

/**
 * Runs one operator that listens on one address only. `tollway operator` listens on all of them, because a
 * pod has its own; several operators of one machine need one address each, because all of them have the same
 * ports.
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
