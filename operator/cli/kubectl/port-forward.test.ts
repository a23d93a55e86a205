import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { forwardPort } from './port-forward.ts'

test('the error has what kubectl says, also if it arrives after the end of its process', async t => {
  const folder = temporaryFolder('kubectl')
  const script = '#!/bin/sh\n(sleep 0.2; echo "error: pods \\"p\\" not found" >&2) &\nexit 1\n'
  writeFileSync(join(folder, 'kubectl'), script, { mode: 0o755 })
  const { PATH } = process.env
  process.env['PATH'] = `${folder}${delimiter}${PATH}`
  t.after(() => {
    process.env['PATH'] = PATH
  })
  const none = { context: undefined, kubeconfig: undefined, namespace: undefined, as: undefined }
  const values = { ...none, 'tollway-namespace': undefined }
  await assert.rejects(forwardPort({ name: 'p', namespace: 'n' }, 80, values), {
    message: 'kubectl port-forward: pods "p" not found',
  })
})
