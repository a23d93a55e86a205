import assert from 'node:assert/strict'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../test/support/temporary-folder.ts'
import { type KubeNode, selectLoader } from './load-images.ts'

const image = {
  archive: '/tmp/operator.tar',
  reference: 'tollway/operator:dev',
  digest: 'sha256:0123456789abcdef',
}
const node: KubeNode = { labels: {}, providerId: '', architecture: 'amd64' }
const load = ['kind load image-archive --name', '/tmp/operator.tar']

/**
 * The settings, the programs on the PATH, the context and a node; and the expected command and reference for
 * pods.
 */
const ways: readonly (readonly [
  env: Readonly<Record<string, string>>,
  programs: readonly string[],
  context: string,
  node: Partial<KubeNode>,
  ran: readonly string[],
  reference?: string,
])[] = [
  [{}, ['kind'], 'kind-dev', {}, [`${load[0]} dev ${load[1]}`]],
  [{}, ['kind'], 'renamed', { providerId: 'kind://docker/dev/dev-worker' }, [`${load[0]} dev ${load[1]}`]],
  [{}, ['k3d'], 'k3d-dev', {}, ['k3d image import --cluster dev /tmp/operator.tar']],
  [{}, ['minikube'], 'minikube', {}, ['minikube image load --profile minikube /tmp/operator.tar']],
  [
    {},
    ['minikube'],
    'mine',
    { labels: { 'minikube.k8s.io/name': 'second' } },
    ['minikube image load --profile second /tmp/operator.tar'],
  ],
  [{}, ['docker'], 'docker-desktop', {}, ['docker load --input /tmp/operator.tar']],
  [
    { LOAD_IMAGES: 'ctr -n k8s.io images import' },
    ['ctr'],
    'kind-dev',
    {},
    ['ctr -n k8s.io images import /tmp/operator.tar'],
  ],
  [
    { REGISTRY: 'registry.example.com:5000/team' },
    ['skopeo', 'docker'],
    'kind-dev',
    {},
    [
      'skopeo copy --preserve-digests oci-archive:/tmp/operator.tar:dev ' +
        'docker://registry.example.com:5000/team/tollway/operator:0123456789ab',
    ],
    'registry.example.com:5000/team/tollway/operator:0123456789ab',
  ],
  [
    { REGISTRY: 'registry.example.com' },
    ['docker'],
    'production',
    {},
    [
      'docker load --input /tmp/operator.tar',
      'docker tag tollway/operator:dev registry.example.com/tollway/operator:0123456789ab',
      'docker push registry.example.com/tollway/operator:0123456789ab',
    ],
    'registry.example.com/tollway/operator:0123456789ab',
  ],
]

for (const [env, programs, context, known, ran, reference = image.reference] of ways) {
  test(`images get to ${context} with ${[...Object.keys(env), ...programs]} by ${ran[0]}`, async t => {
    const log = fakePrograms(t, programs)
    const loader = selectLoader(env, { context, nodes: [{ ...node, ...known }] })
    assert.equal(await loader.load(image), reference)
    assert.deepEqual(log(), ran)
  })
}

/** The settings, the programs on the PATH and the context; and the expected error. */
const errors: readonly (readonly [
  env: Readonly<Record<string, string>>,
  programs: readonly string[],
  context: string,
  error: RegExp,
])[] = [
  [{}, ['docker', 'kind'], 'production', /context production is none of kind, k3d.*REGISTRY=.*LOAD_IMAGES=/],
  [
    {},
    [],
    'kind-dev',
    /^kind is not on the PATH; it is needed to load images into this cluster, or set REGISTRY/,
  ],
  [{ REGISTRY: 'registry.example.com' }, [], 'production', /^docker is not on the PATH.*skopeo does it, too/],
  [
    { REGISTRY: 'https://registry.example.com' },
    ['skopeo'],
    'x',
    /^REGISTRY is "https:.*must be a host and a path/,
  ],
]

for (const [env, programs, context, error] of errors) {
  test(`the error is ${error.source}`, t => {
    fakePrograms(t, programs)
    assert.throws(() => selectLoader(env, { context, nodes: [node] }), { message: error })
  })
}

test('a registry that rejects the push is named with what to do', async t => {
  fakePrograms(t, ['skopeo'], 1)
  const loader = selectLoader({ REGISTRY: 'registry.example.com/team' }, { context: 'x', nodes: [] })
  await assert.rejects(loader.load(image), /skopeo login registry\.example\.com\), or name a registry/)
})

/**
 * Puts only fake programs on the PATH, which log their arguments. Returns a function that reads these lines.
 */
function fakePrograms(t: { after(end: () => void): void }, names: readonly string[], code = 0) {
  const folder = temporaryFolder('programs')
  const log = join(folder, 'log')
  for (const name of names) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho "\${0##*/} $*" >> ${log}\nexit ${code}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  const before = process.env['PATH']
  process.env['PATH'] = [folder, '/bin/none'].join(delimiter)
  // bash runs the command in LOAD_IMAGES.
  writeFileSync(join(folder, 'bash'), `#!/bin/sh\nPATH=${folder}:$PATH exec /bin/bash "$@"\n`)
  chmodSync(join(folder, 'bash'), 0o755)
  t.after(() => {
    process.env['PATH'] = before
  })
  return () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : [])
}
