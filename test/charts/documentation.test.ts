import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CORE_SCHEMA, load } from 'js-yaml'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { missingHelm, render } from './helm.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const pages = [
  'README.md',
  ...['tasks/install', 'tasks/run-payments', 'operations/troubleshooting', 'operations/runbooks'].map(
    page => `docs/${page}.md`,
  ),
]
const text = pages.map(read).join('\n')

function blocks(language: string, start = ''): readonly string[] {
  const found = [...text.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))]
  return found.map(match => match[1] ?? '').filter(block => block.startsWith(start))
}

test('the chart accepts the values of the documentation', { skip: missingHelm() }, () => {
  const examples = blocks('yaml', '# values.yaml')
  assert.ok(examples.length > 5)
  for (const values of examples) {
    const hasRedis = /^redis:|type: memory/m.test(values)
    assert.ok(hasRedis, `would be refused:\n${values}`)
    assert.ok(render({ values }).length > 5)
  }
})

test('the chart accepts the --set of the documentation', { skip: missingHelm() }, () => {
  const commands = blocks('sh').flatMap(block => block.replaceAll('\\\n', '').split('\n'))
  const installs = commands.filter(command => command.startsWith('helm install'))
  assert.ok(installs.length > 2)
  for (const command of installs) {
    const set = [...command.matchAll(/--set '?([^' ]+)'?/g)].map(match => match[1] ?? '')
    assert.ok(render({ set }).length > 5, command)
  }
})

test('Envoy accepts the configuration of the documentation', t => {
  const [envoyConfig = ''] = blocks('yaml', '# envoy.yaml')
  const { static_resources: resources } = load(envoyConfig, { schema: CORE_SCHEMA }) as {
    static_resources: { clusters: readonly { name: string; type: string }[] }
  }
  const cluster = resources.clusters.find(({ name }) => name === 'ratelimit')
  assert.equal(cluster?.type, 'STRICT_DNS')
  assert.match(JSON.stringify(cluster), /http2_protocol_options/)
  const envoy = requireProgram(t, 'envoy')
  if (envoy === false) return
  const folder = temporaryFolder('envoy')
  const path = join(folder, 'envoy.yaml')
  writeFileSync(path, envoyConfig)
  const { status, stderr } = spawnSync(envoy, ['--mode', 'validate', '-c', path], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
})

test('the tollway commands of the documentation have existing options', async () => {
  const commands = [...text.matchAll(/\btollway (call|status|try|operator) ([^\n`|#]*--[^\n`|#]*)/g)]
  assert.ok(commands.length > 8)
  for (const [whole, name = '', rest = ''] of commands) {
    let help = ''
    const collect = (said: string) => {
      help += said
    }
    await runTollway([name, '--help'], { print: collect, printError: collect })
    for (const [, option = ''] of rest.matchAll(/(?:^| )(--[a-z-]+|-[a-z])\b/g)) {
      if (option === '--help') continue
      assert.ok(help.includes(`${option} `) || help.includes(`${option},`), `${whole}: ${option}`)
    }
  }
})
