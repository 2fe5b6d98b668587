import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { Api } from '@/api/client'
import { headlinesQuery } from '@/api/queries/benchmarks'
import { Chart, fetchCharts } from '@/charts/Chart'
import { trendOption } from '@/pages/benchmarks/option'
import { trendOf, trendText } from '@/pages/benchmarks/trend'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Verdict } from '@/parts/Mark'
import { Measured } from '@/parts/Measured'

fetchCharts()

/** How the headline metric of a benchmark went lately. */
export function TrendCard({ benchmark }: { benchmark: string }) {
  const headlines = useQuery(headlinesQuery([benchmark]))
  const found = headlines.data?.items[0]
  return (
    <Card
      title={found ? `Headline: ${found.metric}${found.label ? `, ${found.label}` : ''}` : 'Headline'}
      aside={
        found && (
          <Link to="/series/$series" params={{ series: found.series }}>
            The whole series
          </Link>
        )
      }
    >
      <Asked query={headlines} what="the trend">
        {({ items }) =>
          items[0] ? (
            <Trend headline={items[0]} />
          ) : (
            <p className="quiet">
              Nothing has been measured yet. The trend of its headline metric appears with the first result.
            </p>
          )
        }
      </Asked>
    </Card>
  )
}

function Trend({ headline }: { headline: Api<'Headline'> }) {
  const points = useMemo(() => trendOf(headline), [headline])
  const option = useMemo(
    () => trendOption(points, headline.metric, headline.unit),
    [points, headline.metric, headline.unit],
  )
  const rows = useMemo(
    () => ({
      columns: ['at', headline.metric, 'low', 'high'],
      rows: points.map((one) => [new Date(one.at * 1000).toISOString(), one.value, one.low, one.high]),
    }),
    [points, headline.metric],
  )
  return (
    <>
      <p>
        Newest:{' '}
        <Measured value={headline.median} unit={headline.unit} interval={headline.interval} better={headline.better} />{' '}
        <Verdict verdict={headline.verdict} />
      </p>
      {points.length > 1 && (
        <Chart
          title={`${headline.metric} of ${headline.benchmark}`}
          says={`${trendText(headline)}; whiskers are 95 % intervals`}
          option={option}
          rows={rows}
          points={points.length}
          height={220}
        />
      )}
    </>
  )
}
