import { join } from 'node:path'
import { nodeOptions as brokerOptions } from '@tollway/broker/node-options.ts'
import {
  buildTree,
  fileCopy,
  type TreeEntries,
  type TreeEntry,
  textFile,
} from '@tollway/chassis/file-tree.ts'
import { nodeEnvironment } from '@tollway/chassis/node-environment.ts'
import { nodeOptions as operatorOptions } from '@tollway/operator/node-options.ts'
import { nodeOptions as ratelimitOptions } from '@tollway/ratelimit/node-options.ts'
import { bundle } from './bundle.ts'
import { billOfMaterials, licenseEntries } from './components/component.ts'
import { npmComponents } from './components/npm-components.ts'
import { makeLauncher } from './launcher.ts'
import { type NodeLayer, nodePath, nonRoot } from './node-layer.ts'
import type { Contents, Recipe } from './recipe.ts'

interface OurImage {
  readonly name: string
  readonly title: string
  readonly command: string
  readonly source: string
  readonly args: readonly string[]
  /** A second path of the program, for Kubernetes manifests that were written for another image. */
  readonly alias?: string
  readonly nodeOptions: readonly string[]
  /** Environment variables in addition to PATH and NODE_ENV. */
  readonly environment?: Readonly<Record<string, string>>
  readonly ports: readonly number[]
}

/** The image of the operator also contains the services, which `tollway run` starts. */
const ourImages: readonly OurImage[] = [
  {
    name: 'operator',
    title: 'The operator of Tollway, and its command line',
    command: 'tollway',
    source: 'operator/cli/tollway.ts',
    args: ['operator'],
    nodeOptions: operatorOptions,
    environment: nodeEnvironment,
    ports: [8000, 18_000],
  },
  {
    name: 'ratelimit',
    title: 'The rate limit service of Tollway',
    command: 'ratelimit',
    // The path of the program in the image of envoyproxy/ratelimit.
    alias: 'bin/ratelimit',
    source: 'services/ratelimit/main.ts',
    args: [],
    nodeOptions: ratelimitOptions,
    environment: nodeEnvironment,
    ports: [6070, 8080, 8081, 9090],
  },
  {
    name: 'broker',
    title: 'The broker of animation streams of Tollway',
    command: 'broker',
    source: 'services/broker/main.ts',
    args: [],
    nodeOptions: brokerOptions,
    ports: [6072, 8082, 9090],
  },
  {
    name: 'payments',
    title: 'The payments service of Tollway',
    command: 'payments',
    source: 'services/payments/main.ts',
    args: [],
    nodeOptions: [],
    ports: [6073, 8090, 8091],
  },
]

/**
 * Returns the recipes for the images of Tollway. `node` is called only when an image is made.
 *
 * @param version the version of Tollway, for the bill of materials
 */
export function ourRecipes(root: string, version: string, node: () => NodeLayer): readonly Recipe[] {
  return ourImages.map(image => ({
    name: image.name,
    repository: `tollway/${image.name}`,
    title: image.title,
    ours: true,
    run: {
      User: `${nonRoot}:${nonRoot}`,
      Entrypoint: entrypoint(image),
      ...(image.args.length === 0 ? {} : { Cmd: image.args }),
      Env: ['PATH=/usr/local/bin', 'NODE_ENV=production', ...formatEnvironment(image)],
      WorkingDir: '/tmp',
      ExposedPorts: Object.fromEntries(image.ports.map(port => [`${port}/tcp`, {}])),
    },
    gather: () => gather(root, version, image, node()),
  }))
}

async function gather(root: string, version: string, image: OurImage, node: NodeLayer): Promise<Contents> {
  const { files, inputs } = await bundle(root, image.command, image.source)
  const packages = npmComponents(root, inputs)
  const bill = billOfMaterials({ name: `tollway/${image.name}`, version }, [...node.components, ...packages])
  const tree = buildTree(
    [...files].map(([name, content]): [string, TreeEntry] => [
      `app/${name}`,
      { kind: 'file', mode: 0o644, content },
    ]),
    linkAlias(image),
    [
      [`usr/local/bin/${image.command}`, textFile(makeLauncher(`/app/${image.command}.mjs`), 0o755)],
      ['licenses/tollway/LICENSE', fileCopy(join(root, 'LICENSE'))],
      ['sbom.cdx.json', textFile(bill)],
    ],
    licenseEntries(packages),
  )
  const layers = [
    { name: 'node', tree: node.tree },
    { name: image.name, tree },
  ]
  return { layers, bill }
}

function linkAlias({ command, alias }: OurImage): TreeEntries {
  return alias === undefined ? [] : [[alias, { kind: 'link', target: `/usr/local/bin/${command}` }]]
}

function formatEnvironment({ environment = {} }: OurImage): readonly string[] {
  return Object.entries(environment).map(([name, value]) => `${name}=${value}`)
}

/**
 * Returns the entrypoint of an image. It has the options of Node, because the first line of the launcher
 * script can hold only one option.
 */
function entrypoint({ command, nodeOptions }: OurImage): readonly string[] {
  const path = `/usr/local/bin/${command}`
  return nodeOptions.length === 0 ? [path] : [nodePath, ...nodeOptions, path]
}
