// The documentation as a searchable site: `npm run docs` serves it, `npm run docs:build` also checks every link.
// The pages are the repository's own Markdown files, so that they can be read without the site, too.
import { defineConfig } from 'vitepress'

const page = (text, link) => ({ text, link })

export default defineConfig({
  title: 'ojs-rabbitmq',
  description: 'RabbitMQ as a complete Open Job Spec job system',
  srcDir: '..',
  srcExclude: ['node_modules/**', 'dist/**', 'data/**', 'src/**', 'test/**', 'scripts/**'],
  cacheDir: '../node_modules/.cache/vitepress',
  rewrites: { 'README.md': 'index.md' },
  // A file of the repository that is no page: test/docs/links.test.ts checks that it exists.
  ignoreDeadLinks: [/\/(test|src|scripts|topology)\/.*\.(ts|mjs|json|config)$/],
  cleanUrls: true,
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: [
      {
        text: 'Guide',
        items: [
          page('Getting started', '/docs/guide/getting-started'),
          page('Retries and dead letters', '/docs/guide/retries'),
          page('Recurring jobs (cron)', '/docs/guide/cron'),
          page('Workflows', '/docs/guide/workflows'),
          page('Unique jobs', '/docs/guide/unique-jobs'),
          page('Schemas', '/docs/guide/schemas'),
          page('Queues', '/docs/guide/queues'),
          page('Concurrency keys', '/docs/guide/concurrency'),
          page('Long jobs', '/docs/guide/long-jobs'),
          page('TypeScript SDK', '/docs/guide/typescript-sdk'),
          page('Native workers', '/docs/guide/native-workers'),
          page('As a package', '/docs/guide/package'),
          page('Watching jobs', '/docs/guide/watching'),
          page('The console', '/docs/guide/console'),
          page('Events and workers', '/docs/guide/events-and-workers'),
        ],
      },
      {
        text: 'Operate',
        items: [
          page('Operations', '/docs/operate/operations'),
          page('The ledger on PostgreSQL', '/docs/operate/postgresql'),
          page('Access', '/docs/operate/access'),
          page('Queue types', '/docs/operate/queue-types'),
          page('Faults', '/docs/operate/faults'),
          page('Tracing', '/docs/operate/tracing'),
          page('Topology and rights', '/topology/README'),
        ],
      },
      {
        text: 'Reference',
        items: [
          page('Configuration', '/docs/reference/configuration'),
          page('HTTP API', '/docs/reference/http'),
          page('OpenAPI', '/docs/reference/openapi'),
          page('Control protocol (AMQP)', '/docs/reference/control-protocol'),
          page('SDK: client', '/docs/reference/sdk'),
          page('SDK: worker', '/docs/reference/sdk-worker'),
          page('Benchmarks', '/docs/reference/benchmarks'),
          page('Command line', '/docs/reference/cli'),
          page('Metrics', '/docs/reference/metrics'),
          page('Deviations', '/docs/reference/deviations'),
          page('Conformance: HTTP', '/docs/reference/http-conformance'),
          page('Conformance: AMQP', '/docs/reference/amqp-conformance'),
          page('OJS documents', '/docs/reference/ojs-documents'),
        ],
      },
      {
        text: 'Project',
        items: [
          page('Architecture', '/docs/architecture'),
          page('Contributing', '/CONTRIBUTING'),
          page('Benchmarks', '/bench/README'),
          page('Changelog', '/CHANGELOG'),
        ],
      },
    ],
  },
})
