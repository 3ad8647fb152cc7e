"""Trains a Keras network on MNIST digits without Python on the executors, and predicts digits that it has not seen.

The model is exported once, here on the driver, with its training in it. Then processes in C do the work: on each
executor one that reads TFRecords and trains together with the others, and at the end one that predicts for the rows of
a DataFrame.

    spark-submit --master 'local-cluster[2,1,1024]' examples/mnist/train_native.py --data build/demo/digits
"""

import argparse
import glob
import os
import time


def export(folder):
    """The one part that needs Keras."""
    import keras

    from tensorflowonspark import native

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Rescaling(1 / 255), keras.layers.Reshape([28, 28, 1])]
    layers += [keras.layers.Conv2D(16, 5, 2, activation="relu"), keras.layers.Conv2D(32, 3, 2, activation="relu")]
    layers += [keras.layers.Flatten(), keras.layers.Dropout(0.4), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input([784], name="image"), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    native.export(model, keras.optimizers.Adam(3e-3), loss, ["accuracy"], folder, overwrite=True)


def main():
    parser = argparse.ArgumentParser(description="Trains on MNIST digits without Python on the executors.")
    parser.add_argument("--data", required=True, help="a folder of TFRecords: image and label; the last is held out")
    parser.add_argument("--output", default="mnist_native", help="a folder for models and checkpoints")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=32, help="of each worker")
    args = parser.parse_args()

    from pyspark.sql import SparkSession

    from tensorflowonspark import TFCluster, attach, native, pipeline

    spark = SparkSession.builder.getOrCreate()
    attach(spark)
    *files, held_out = sorted(glob.glob(os.path.join(args.data, "*.tfrecord")))
    trainable, trained = (os.path.join(args.output, name) for name in ("exported", "trained"))
    export(trainable)
    print("[tfos] the model is exported, and Python has done its part", flush=True)

    began = time.time()
    trainer = native.Trainer(
        trainable,
        data=files,
        validation=[held_out],
        epochs=args.epochs,
        batch_size=args.batch_size,
        model_dir=os.path.join(args.output, "checkpoints"),
        export_dir=trained,
    )
    cluster = TFCluster.run(spark.sparkContext, trainer, None, args.nodes, num_ps=0)
    cluster.shutdown()
    first = cluster.results()[0].value
    print(f"[tfos] {first['rows']} rows in {first['steps']} steps, {time.time() - began:.1f} s with the start of nodes")

    model = pipeline.TFModel({}).setExportDir(os.path.abspath(trained)).setBatchSize(256)
    model = model.setInputMapping({"image": "image"}).setOutputMapping({"output": "scores"}).setKeepCols(["label"])
    digits = model.transform(spark.read.format("tfrecord").load(held_out))
    digits = digits.selectExpr("label", "array_position(scores, array_max(scores)) - 1 AS prediction").cache()
    for row in digits.take(8):
        print(f"Label: {row.label}, Prediction: {row.prediction}")
    right = digits.where("label = prediction").count()
    print(f"Accuracy on {digits.count()} digits that were not trained on: {right / digits.count():.2%}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
