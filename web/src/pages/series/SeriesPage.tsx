import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useMemo } from 'react'
import { alertsQuery } from '@/api/queries/alerts'
import { oneSeriesQuery, pointsQuery } from '@/api/queries/series'
import { usePollMs } from '@/app/live'
import { fetchCharts } from '@/charts/Chart'
import { Changes } from '@/pages/series/Changes'
import { PointsTable } from '@/pages/series/PointsTable'
import { SeriesAlerts } from '@/pages/series/SeriesAlerts'
import { TrendCard } from '@/pages/series/TrendCard'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Page } from '@/parts/Page'
import type { Alert, SeriesFull } from '@/watching/types'
import { When } from '@/watching/When'
import { count, looksWords, machineWords, pointWords, seriesTitle, spreadWords } from '@/watching/words'
import '@/pages/series/series.css'
import '@/watching/watching.css'

fetchCharts()

const NO_ALERTS: Alert[] = []

/** One series: its trend, what changed in it and why, alerts about it, and every result. */
export default function SeriesPage() {
  const { series = '' } = useParams({ strict: false })
  const full = useQuery({ ...oneSeriesQuery(series), refetchInterval: usePollMs() })
  const title = full.data ? seriesTitle(full.data.series) : 'Series'
  return (
    <Page
      title={title}
      crumbs={<Crumbs full={full.data} />}
      lead="One metric of one benchmark on one kind of machine, over time: each dot is one result, its whisker the 95 % interval."
    >
      <Asked query={full} what="the series">
        {(found) => <Known full={found} />}
      </Asked>
    </Page>
  )
}

function Crumbs({ full }: { full: SeriesFull | undefined }) {
  return (
    <>
      <Link to="/series">Series</Link>
      {full && full.series.origin === 'results' && (
        <>
          {' '}
          /{' '}
          <Link to="/series" search={{ benchmark: full.series.benchmark }}>
            {full.series.benchmark}
          </Link>
        </>
      )}
    </>
  )
}

function Known({ full }: { full: SeriesFull }) {
  const { series } = full
  const points = useQuery({
    ...pointsQuery(series.id, series.points, series.newest),
    placeholderData: keepPreviousData,
  })
  const alerts = useInfiniteQuery(alertsQuery({ text: series.id }))
  const about = useMemo(() => alerts.data?.pages.flatMap((page) => page.items) ?? NO_ALERTS, [alerts.data])
  return (
    <>
      <Asked query={points} what="its results">
        {(found) => <TrendCard full={full} points={found} alerts={about} />}
      </Asked>
      <div className="cards cards-above">
        <Facts series={series} />
        <SeriesAlerts query={alerts} alerts={about} />
      </div>
      <Card title="What changed">
        <Changes findings={full.findings} />
      </Card>
      {points.data && points.data.length > 0 && (
        <Card title="Results">
          <PointsTable series={series} points={points.data} />
        </Card>
      )}
    </>
  )
}

function Facts({ series }: { series: SeriesFull['series'] }) {
  const labels = pointWords(series.labels)
  return (
    <Card title="About this series">
      <dl className="facts">
        {series.origin === 'import' && (
          <>
            <dt>From</dt>
            <dd>imported points</dd>
          </>
        )}
        {machineWords(series.machine) && (
          <>
            <dt>Machine</dt>
            <dd>{machineWords(series.machine)}</dd>
          </>
        )}
        {labels && (
          <>
            <dt>Labels</dt>
            <dd>{labels}</dd>
          </>
        )}
        <dt>Better is</dt>
        <dd>{series.better ?? 'not said: changes have no direction'}</dd>
        <dt>Looks</dt>
        <dd>
          {looksWords(series)}, spread of one result around its level {spreadWords(series)}
        </dd>
        <dt>Results</dt>
        <dd>
          {count(series.points, 'result')}, the newest <When at={series.newest} />
        </dd>
      </dl>
    </Card>
  )
}
