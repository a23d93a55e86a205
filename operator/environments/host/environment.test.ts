import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { dump } from 'js-yaml'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { environmentContract, type Manifest } from '../../testing/environment.contract.ts'
import { credentialFile } from './credentials.ts'
import { hostEnvironment } from './environment.ts'
import { rememberedPath } from './memory.ts'
import { createFileSource } from './resources.ts'

environmentContract('on one machine', async () => {
  const place = temporaryFolder('host-environment')
  const [folder, stateDir] = [join(place, 'manifests'), join(place, 'state')]
  for (const path of [folder, stateDir]) mkdirSync(path)
  const fileOf = ({ kind, metadata }: Manifest) => join(folder, `${kind}-${metadata.name}.yaml`)
  let statuses: readonly ResourceStatus[] = []
  return {
    async open(provisioner) {
      const source = createFileSource({ folder, clock: systemClock })
      await source.start()
      const environment = hostEnvironment({
        source,
        infrastructure: { observe: () => [], onChange() {} },
        services: ['ratelimit', 'broker', 'payments'],
        whySwitchedOff: () => undefined,
        rememberedPath: rememberedPath(stateDir),
        merchants: {
          stateDir,
          provisioner,
          addresses: { baseUrl: 'http://127.0.0.1:1', payPageUrl: 'http://127.0.0.1:1/pay' },
        },
        log: silentLog,
        writeStatus(all) {
          statuses = all
        },
      })
      return { environment, close: () => source.stop() }
    },
    async apply(manifest) {
      writeFileSync(fileOf(manifest), dump(manifest))
    },
    async remove(manifest) {
      rmSync(fileOf(manifest))
    },
    async conditions({ kind, metadata }) {
      return statuses.find(one => one.kind === kind && one.name === metadata.name)?.conditions ?? []
    },
    async readSecret(namespace, name) {
      const { stringData } = JSON.parse(readFileSync(credentialFile(stateDir, { namespace, name }), 'utf8'))
      return stringData
    },
    async close() {},
  }
})
